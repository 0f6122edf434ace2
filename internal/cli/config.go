package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (o Options) configCommand() *cobra.Command {
	return group("config", "Show and change configurations of topics, brokers and groups", o.configDescribe(), o.configAlter())
}

// resourceForm is how the commands name a resource.
const resourceForm = "topic NAME, broker ID, broker default, group NAME or client-metrics NAME"

func parseResource(a []string) (kmsg.ConfigResourceType, string, error) {
	name := a[1]
	switch a[0] {
	case "topic":
		return kmsg.ConfigResourceTypeTopic, name, nil
	case "group":
		return kmsg.ConfigResourceTypeGroupConfig, name, nil
	case "client-metrics":
		return kmsg.ConfigResourceTypeClientMetrics, name, nil
	case "broker":
		if name == "default" {
			return kmsg.ConfigResourceTypeBroker, "", nil
		}
		if _, err := strconv.ParseInt(name, 10, 32); err != nil {
			return 0, "", usagef("%q is no broker id; want a number, or default for all brokers", name)
		}
		return kmsg.ConfigResourceTypeBroker, name, nil
	}
	return 0, "", usagef("%q is no kind of resource; want %s", a[0], resourceForm)
}

type configEntry struct {
	Name      string          `json:"name"`
	Value     *string         `json:"value"`
	Source    string          `json:"source"`
	ReadOnly  bool            `json:"readOnly"`
	Sensitive bool            `json:"sensitive"`
	Type      string          `json:"type"`
	Synonyms  []configSynonym `json:"synonyms"`
	Doc       string          `json:"documentation,omitempty"`
}

type configSynonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

func (o Options) configDescribe() *cobra.Command {
	var everything, docs bool
	c := &cobra.Command{
		Use: "describe RESOURCE NAME [KEY...]", Short: "Show a configuration",
		Long: "Show the configuration of a " + resourceForm + ".\nWithout keys and --all only what somebody has set.",
		Args: args(2, -1, resourceForm),
	}
	r := o.remote(c)
	c.Flags().BoolVar(&everything, "all", false, "show defaults too")
	c.Flags().BoolVar(&docs, "doc", false, "explain every key")
	c.RunE = func(c *cobra.Command, a []string) error {
		typ, name, err := parseResource(a)
		if err != nil {
			return err
		}
		return r.admin(c.Context(), func(ctx context.Context, _ *kadm.Client, cl *kgo.Client) error {
			entries, err := describeConfig(ctx, cl, typ, name, a[2:])
			if err != nil {
				return err
			}
			if !everything && len(a) == 2 {
				entries = slices.DeleteFunc(entries, func(e configEntry) bool {
					return e.Source == kmsg.ConfigSourceDefaultConfig.String()
				})
			}
			if !docs {
				for i := range entries {
					entries[i].Doc = ""
				}
			}
			return r.showConfigs(entries)
		})
	}
	return c
}

func (r *remote) showConfigs(entries []configEntry) error {
	if r.json {
		return writeJSON(r.Out, entries)
	}
	if len(entries) == 0 {
		return say(r.Err, "nothing is set; --all shows the defaults")
	}
	tab := newTable(r.Out, "KEY", "VALUE", "SOURCE")
	for _, e := range entries {
		val := "null"
		switch {
		case e.Sensitive:
			val = "(hidden)"
		case e.Value != nil:
			val = *e.Value
		}
		source := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(e.Source, "_CONFIG"), "_", " "))
		if e.Doc != "" {
			tab.row(e.Name, val, source, e.Doc)
			continue
		}
		tab.row(e.Name, val, source)
	}
	return tab.flush()
}

// describeConfig asks for the configuration of one resource, sorted by key; all keys when none is named.
func describeConfig(ctx context.Context, cl *kgo.Client, typ kmsg.ConfigResourceType, name string, keys []string) ([]configEntry, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = typ, name
	if len(keys) > 0 {
		res.ConfigNames = keys
	}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, brokerError(typ, name, err)
	}
	if len(resp.Resources) != 1 {
		return nil, fmt.Errorf("DescribeConfigs: %d answers for one question", len(resp.Resources))
	}
	a := resp.Resources[0]
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
		return nil, answered(resourceWord(typ, name), err, orEmpty(a.ErrorMessage))
	}
	entries := make([]configEntry, 0, len(a.Configs))
	for _, c := range a.Configs {
		e := configEntry{
			Name: c.Name, Value: c.Value, Source: c.Source.String(), ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive,
			Type: c.ConfigType.String(), Doc: orEmpty(c.Documentation), Synonyms: []configSynonym{},
		}
		for _, s := range c.ConfigSynonyms {
			e.Synonyms = append(e.Synonyms, configSynonym{Name: s.Name, Value: s.Value, Source: s.Source.String()})
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b configEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// brokerError says which broker is meant when the client does not know it.
func brokerError(typ kmsg.ConfigResourceType, name string, err error) error {
	if typ == kmsg.ConfigResourceTypeBroker && strings.Contains(err.Error(), "unknown broker") {
		return fmt.Errorf("the cluster has no broker %s", name)
	}
	return err
}

func resourceWord(typ kmsg.ConfigResourceType, name string) string {
	words := map[kmsg.ConfigResourceType]string{
		kmsg.ConfigResourceTypeTopic: "topic ", kmsg.ConfigResourceTypeBroker: "broker ",
		kmsg.ConfigResourceTypeGroupConfig: "group ", kmsg.ConfigResourceTypeClientMetrics: "client-metrics ",
	}
	if name == "" {
		name = "default"
	}
	return words[typ] + name
}

func (o Options) configAlter() *cobra.Command {
	var sets, resets, appends, subtracts []string
	c := &cobra.Command{
		Use: "alter RESOURCE NAME", Short: "Change a configuration", Args: args(2, 2, resourceForm),
		Example: "  kbroker config alter topic orders --set retention.ms=3600000 --append cleanup.policy=compact\n" +
			"  kbroker config alter broker default --set log.cleaner.threads=2",
	}
	r := o.remote(c)
	c.Flags().StringArrayVar(&sets, "set", nil, "key=value to set, repeatable")
	c.Flags().StringArrayVar(&resets, "delete", nil, "key to return to its default, repeatable")
	c.Flags().StringArrayVar(&appends, "append", nil, "key=element to add to a list, repeatable")
	c.Flags().StringArrayVar(&subtracts, "subtract", nil, "key=element to take from a list, repeatable")
	c.RunE = func(c *cobra.Command, a []string) error {
		typ, name, err := parseResource(a)
		if err != nil {
			return err
		}
		ops, err := configOps(sets, resets, appends, subtracts)
		if err != nil {
			return err
		}
		if len(ops) == 0 {
			return usageOf(c, errors.New("nothing to do: want --set, --delete, --append or --subtract"))
		}
		return r.admin(c.Context(), func(ctx context.Context, _ *kadm.Client, cl *kgo.Client) error {
			if err := alterConfig(ctx, cl, typ, name, ops); err != nil {
				return err
			}
			if r.json {
				return writeJSON(r.Out, map[string]any{"altered": resourceWord(typ, name)})
			}
			return say(r.Out, "altered %s", resourceWord(typ, name))
		})
	}
	return c
}

// configOps turns the flags of a change into operations.
func configOps(sets, resets, appends, subtracts []string) ([]kmsg.IncrementalAlterConfigsRequestResourceConfig, error) {
	var ops []kmsg.IncrementalAlterConfigsRequestResourceConfig
	add := func(key string, op kmsg.IncrementalAlterConfigOp, val *string) {
		o := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		o.Name, o.Op, o.Value = key, op, val
		ops = append(ops, o)
	}
	for _, f := range []struct {
		flag  string
		pairs []string
		op    kmsg.IncrementalAlterConfigOp
	}{
		{"set", sets, kmsg.IncrementalAlterConfigOpSet},
		{"append", appends, kmsg.IncrementalAlterConfigOpAppend},
		{"subtract", subtracts, kmsg.IncrementalAlterConfigOpSubtract},
	} {
		pairs, err := parsePairs(f.flag, f.pairs)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			add(p[0], f.op, &p[1])
		}
	}
	for _, key := range resets {
		add(key, kmsg.IncrementalAlterConfigOpDelete, nil)
	}
	return ops, nil
}

func alterConfig(ctx context.Context, cl *kgo.Client, typ kmsg.ConfigResourceType, name string,
	ops []kmsg.IncrementalAlterConfigsRequestResourceConfig,
) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = typ, name, ops
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return brokerError(typ, name, err)
	}
	for _, a := range resp.Resources {
		if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
			return answered(resourceWord(typ, name), err, orEmpty(a.ErrorMessage))
		}
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func noneIfNegative(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (o Options) groupCommand() *cobra.Command {
	return group("group", "List, describe and reset consumer groups", o.groupList(), o.groupDescribe(), o.groupReset())
}

type listedGroup struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Type        string `json:"type,omitempty"`
	Protocol    string `json:"protocolType,omitempty"`
	Coordinator int32  `json:"coordinator"`
}

func (o Options) groupList() *cobra.Command {
	var states []string
	c := &cobra.Command{Use: "list", Short: "List groups", Args: args(0, 0, "no argument")}
	r := o.remote(c)
	c.Flags().StringSliceVar(&states, "state", nil, "only groups in these states, such as Stable or Empty")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			groups, err := adm.ListGroups(ctx, states...)
			if err != nil {
				return err
			}
			out := []listedGroup{}
			for _, g := range groups.Sorted() {
				out = append(out, listedGroup{g.Group, g.State, g.GroupType, g.ProtocolType, g.Coordinator})
			}
			if r.json {
				return writeJSON(r.Out, out)
			}
			if len(out) == 0 {
				return say(r.Err, "no groups")
			}
			tab := newTable(r.Out, "GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR")
			for _, g := range out {
				tab.row(g.Group, g.State, g.Type, g.Protocol, g.Coordinator)
			}
			return tab.flush()
		})
	}
	return c
}

type groupDetail struct {
	Group       string        `json:"group"`
	State       string        `json:"state"`
	Assignor    string        `json:"assignor,omitempty"`
	Coordinator int32         `json:"coordinator"`
	Lag         int64         `json:"lag"` // over all partitions with a commit
	Members     []groupMember `json:"members"`
	Partitions  []groupOffset `json:"partitions"`
}

type groupMember struct {
	Member   string             `json:"member"`
	Instance string             `json:"instance,omitempty"`
	Client   string             `json:"client"`
	Host     string             `json:"host"`
	Assigned map[string][]int32 `json:"assigned"`
}

type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: none
	Start     int64  `json:"startOffset"`
	End       int64  `json:"endOffset"`
	Lag       int64  `json:"lag"` // -1: unknown
	Member    string `json:"member,omitempty"`
}

func (o Options) groupDescribe() *cobra.Command {
	c := &cobra.Command{
		Use: "describe GROUP...", Short: "Show members, offsets and lag of groups", Args: args(1, -1, "the names of groups"),
	}
	r := o.remote(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			var (
				errs    []error
				details = []*groupDetail{}
			)
			for _, name := range names {
				d, err := describeGroup(ctx, adm, name)
				if err != nil {
					errs = append(errs, groupError(name, err))
					continue
				}
				details = append(details, d)
			}
			if r.json {
				return all(append(errs, writeJSON(r.Out, details)))
			}
			return all(append(errs, r.showGroups(details)))
		})
	}
	return c
}

// errNoGroup is a group that nobody is in and that has committed nothing.
var errNoGroup = errors.New("no such group")

func groupError(name string, err error) error {
	if errors.Is(err, errNoGroup) {
		return fmt.Errorf("group %s does not exist; kbroker group list shows what there is", name)
	}
	return fmt.Errorf("group %s: %w", name, err)
}

// groupState returns a group's state and members, whichever of the two protocols it uses. The newer one is asked first:
// some brokers describe its groups in the classic way as groups without members.
func groupState(ctx context.Context, adm *kadm.Client, name string) (*groupDetail, error) {
	if next, err := adm.DescribeConsumerGroups(ctx, name); err == nil {
		if g, ok := next[name]; ok && g.Err == nil && g.State != "Dead" {
			return nextGroup(&g), nil
		}
	}
	classic, err := adm.DescribeGroups(ctx, name)
	if err != nil {
		return nil, err
	}
	g := classic[name]
	switch {
	case g.Err == nil && g.State != "Dead":
		return classicGroup(&g), nil
	case g.Err == nil, errors.Is(g.Err, kerr.GroupIDNotFound):
		return nil, errNoGroup
	}
	return nil, g.Err
}

func classicGroup(g *kadm.DescribedGroup) *groupDetail {
	d := &groupDetail{Group: g.Group, State: g.State, Assignor: g.Protocol, Coordinator: g.Coordinator.NodeID, Members: []groupMember{}}
	for _, m := range g.Members {
		gm := groupMember{Member: m.MemberID, Instance: orEmpty(m.InstanceID), Client: m.ClientID, Host: m.ClientHost}
		gm.Assigned = map[string][]int32{}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				gm.Assigned[t.Topic] = t.Partitions
			}
		}
		d.Members = append(d.Members, gm)
	}
	return d
}

func nextGroup(g *kadm.DescribedConsumerGroup) *groupDetail {
	d := &groupDetail{Group: g.Group, State: g.State, Assignor: g.AssignorName, Coordinator: g.Coordinator.NodeID, Members: []groupMember{}}
	for _, m := range g.Members {
		gm := groupMember{Member: m.MemberID, Instance: orEmpty(m.InstanceID), Client: m.ClientID, Host: m.ClientHost}
		gm.Assigned = map[string][]int32{}
		for t, ps := range m.Assignment {
			if t != "" { // a broker may leave out the name of a topic that it is just deleting
				gm.Assigned[t] = slices.Sorted(maps.Keys(ps))
			}
		}
		d.Members = append(d.Members, gm)
	}
	return d
}

func describeGroup(ctx context.Context, adm *kadm.Client, name string) (*groupDetail, error) {
	d, err := groupState(ctx, adm, name)
	if err != nil {
		return nil, err
	}
	committed, err := fetchCommitted(ctx, adm, name)
	if err != nil {
		return nil, err
	}
	readBy := map[string]map[int32]string{}
	for t, ps := range committed {
		readBy[t] = map[int32]string{}
		for p := range ps {
			readBy[t][p] = ""
		}
	}
	for _, m := range d.Members {
		for t, ps := range m.Assigned {
			if readBy[t] == nil {
				readBy[t] = map[int32]string{}
			}
			for _, p := range ps {
				readBy[t][p] = m.Client + "@" + m.Host
			}
		}
	}
	d.Partitions = []groupOffset{}
	if len(readBy) == 0 {
		return d, nil
	}
	return d, fillLag(ctx, adm, d, committed, readBy)
}

// fetchCommitted returns what a group has committed, nothing for a group that does not exist.
func fetchCommitted(ctx context.Context, adm *kadm.Client, name string) (kadm.OffsetResponses, error) {
	committed, err := adm.FetchOffsets(ctx, name)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return kadm.OffsetResponses{}, nil
	}
	return committed, err
}

// fillLag compares what the group has committed with where the partitions end.
func fillLag(ctx context.Context, adm *kadm.Client, d *groupDetail, committed kadm.OffsetResponses, readBy map[string]map[int32]string) error {
	topics := sortedKeys(readBy)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	for _, t := range topics {
		for _, p := range slices.Sorted(maps.Keys(readBy[t])) {
			o := groupOffset{Topic: t, Partition: p, Committed: -1, Start: -1, End: -1, Lag: -1, Member: readBy[t][p]}
			if at, ok := committed.Lookup(t, p); ok && at.Err == nil {
				o.Committed = at.At
			}
			if at, ok := starts.Lookup(t, p); ok && at.Err == nil {
				o.Start = at.Offset
			}
			if at, ok := ends.Lookup(t, p); ok && at.Err == nil {
				o.End = at.Offset
			}
			if o.Committed >= 0 && o.End >= 0 {
				o.Lag = max(o.End-max(o.Committed, o.Start), 0)
				d.Lag += o.Lag
			}
			d.Partitions = append(d.Partitions, o)
		}
	}
	return nil
}

func (r *remote) showGroups(details []*groupDetail) error {
	for i, d := range details {
		if i > 0 {
			if err := say(r.Out, ""); err != nil {
				return err
			}
		}
		assignor := ""
		if d.Assignor != "" {
			assignor = ", " + d.Assignor
		}
		if err := say(r.Out, "%s: %s%s, %s, coordinator %d, lag %d", d.Group, cmp.Or(d.State, "Unknown"), assignor,
			plural(len(d.Members), "member"), d.Coordinator, d.Lag); err != nil {
			return err
		}
		if len(d.Partitions) == 0 {
			continue
		}
		tab := newTable(r.Out, "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
		for _, p := range d.Partitions {
			tab.row(p.Topic, p.Partition, noneIfNegative(p.Committed), noneIfNegative(p.End), noneIfNegative(p.Lag), p.Member)
		}
		if err := tab.flush(); err != nil {
			return err
		}
	}
	return nil
}

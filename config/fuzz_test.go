package config

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func FuzzProperties(f *testing.F) {
	for _, name := range []string{"server.properties", "broker.properties", "controller.properties"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("a=\\\n  b\\u0041\nlisteners=A://[::1]:1,B://:2\nconfig.providers=x\nlog.dirs=\\u"))
	f.Fuzz(func(t *testing.T, text []byte) {
		props, err := parseProperties(text)
		if err != nil {
			return
		}
		l := &loader{where: map[string]string{}}
		l.layers.static = props
		l.readEnv(nil)
		l.findUnknown()
		c := l.build()
		if (c == nil) != (len(l.problems) > 0) {
			t.Fatalf("configuration %v with problems %v", c != nil, l.problems)
		}
		if c == nil {
			return
		}
		for _, e := range c.DescribeBroker() {
			if e.Sensitive && e.Value != nil {
				t.Fatalf("%s shows a secret", e.Name)
			}
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	f.Add("KAFKA_NODE_ID=1\x00KAFKA_A__B___C____D=2\x00CLUSTER_ID=x\x00KAFKA_ADVERTISED_LISTENERS=P://h:1")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _, _ = Load(Options{Env: strings.Split(text, "\x00")})
	})
}

func FuzzListener(f *testing.F) {
	f.Add("PLAINTEXT://localhost:9092")
	f.Add("X://[fe80::1%25eth0]:0")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseListener(text)
		if err != nil {
			return
		}
		again, err := parseListener(l.String())
		if err != nil || again != l {
			t.Fatalf("%q is %+v, written %q and read again %+v, %v", text, l, l, again, err)
		}
	})
}

func FuzzTopicValues(f *testing.F) {
	for i, k := range topicKeys.keys {
		if k.Default != nil {
			f.Add(byte(i), *k.Default)
		}
	}
	c := Default()
	f.Fuzz(func(t *testing.T, key byte, text string) {
		k := topicKeys.keys[int(key)%len(topicKeys.keys)]
		overrides := map[string]string{k.Name: text}
		if c.ValidateTopic(overrides) != nil {
			return
		}
		if _, err := c.Topic(overrides); err != nil {
			t.Fatalf("accepted, then refused: %v", err)
		}
		var canonical *string
		for _, e := range c.DescribeTopic(overrides) {
			if e.Name == k.Name {
				canonical = e.Value
			}
		}
		if canonical == nil || c.ValidateTopic(map[string]string{k.Name: *canonical}) != nil {
			t.Fatalf("%s=%q is shown as %v, which is not accepted", k.Name, text, canonical)
		}
	})
}

func FuzzAlter(f *testing.F) {
	f.Add("cleanup.policy", byte(2), "compact", "delete")
	f.Add("retention.ms", byte(0), "", "5")
	c := Default()
	f.Fuzz(func(t *testing.T, key string, op byte, current, text string) {
		for _, r := range []kmsg.ConfigResourceType{ResourceTopic, ResourceBroker, ResourceGroup, ResourceClientMetrics} {
			next, err := c.Alter(r, map[string]string{key: current}, []Op{{Name: key, Op: kmsg.IncrementalAlterConfigOp(op % 5), Value: &text}})
			if err != nil {
				continue
			}
			_, _, _, _ = c.ValidateTopic(next), c.ValidateBroker(next, true), c.ValidateGroup(next), ValidateClientMetrics(next)
			_, _ = c.WithDynamic(next, next)
		}
	})
}

func FuzzReferences(f *testing.F) {
	f.Add("${env:A}${env:x:A}$${env:}${f:p:k}")
	f.Fuzz(func(_ *testing.T, text string) {
		l := &loader{where: map[string]string{}, variables: map[string]string{"A": "${env:A}"}}
		l.layers.static = map[string]string{
			"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider", "broker.rack": text,
		}
		l.resolveReferences()
	})
}

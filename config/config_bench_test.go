package config

import "testing"

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Load(Options{File: "testdata/server.properties"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTopicWithOverrides(b *testing.B) {
	c := Default()
	overrides := map[string]string{"retention.ms": "1000", "cleanup.policy": "compact"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Topic(overrides); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseTables(b *testing.B) {
	for b.Loop() {
		mustParseTable("broker.tsv", brokerTSV)
	}
}

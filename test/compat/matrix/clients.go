package main

import (
	"bytes"
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed clients.yaml
var clientsFile []byte

// client is one entry of clients.yaml.
type client struct {
	// Name selects the client on the command line.
	Name string `yaml:"name"`
	// About is the client as its users know it, with its version.
	About string `yaml:"about"`
	// Runner is the name of a runner of this package.
	Runner string `yaml:"runner"`
	// With are the runner's own settings: what to install, what to run.
	With map[string]string `yaml:"with"`
	// Config are broker settings that the client's cases need.
	Config map[string]string `yaml:"config"`
	// Cases is how many must pass on Apache Kafka; on kbroker, those of Later fewer.
	Cases int `yaml:"cases"`
	// Later are cases that pass on Apache Kafka and that kbroker cannot serve yet, each with what it waits for.
	Later map[string]string `yaml:"later"`
	// Skips are cases that skip themselves, or fail on Apache Kafka too, each with the reason.
	Skips map[string]string `yaml:"skips"`
}

// loadClients reads the list.
func loadClients(b []byte) ([]client, error) {
	var list []client
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("clients.yaml: %w", err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		switch {
		case c.Name == "" || seen[c.Name]:
			return nil, fmt.Errorf("clients.yaml: name %q is empty or given twice", c.Name)
		case runners[c.Runner] == nil:
			return nil, fmt.Errorf("clients.yaml: %s: no runner is called %q", c.Name, c.Runner)
		case c.Cases <= len(c.Later):
			return nil, fmt.Errorf("clients.yaml: %s: %d cases, of which %d join later", c.Name, c.Cases, len(c.Later))
		}
		seen[c.Name] = true
	}
	return list, nil
}

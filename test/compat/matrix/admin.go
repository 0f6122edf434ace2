package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// createTopic makes a topic that a case needs.
func createTopic(ctx context.Context, j *job, name string, partitions int32, config map[string]string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.cluster.Bootstrap()))
	if err != nil {
		return err
	}
	defer cl.Close()
	values := map[string]*string{}
	for k, v := range config {
		values[k] = &v
	}
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, values, name)
	return err
}

package main

import (
	"github.com/kbroker/kbroker/test/compat/kafka"
)

func record(_ []*verdict, _ kafka.Options) error { return nil }

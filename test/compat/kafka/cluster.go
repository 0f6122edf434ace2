package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Software says whose broker runs.
type Software string

// The brokers that can be run.
const (
	ApacheKafka Software = "kafka"
	KBroker     Software = "kbroker"
)

// clusterID is every test cluster's id: 16 bytes in the form that both brokers want.
const clusterID = "AAAAAAAAQACAAAAAAAAAAA"

// Options say what to start. The zero value is one node of kbroker.
type Options struct {
	// Software is KBroker unless set.
	Software Software
	// Version selects the Apache Kafka, DefaultVersion unless set; kbroker's is the one of this tree.
	Version string
	// Nodes is the number of combined nodes, 1 unless set.
	Nodes int
	// Config adds to every node's server.properties, and replaces what stands there.
	Config map[string]string
	// Listeners, when set, replaces the one plaintext listener of every node: names are free, "CONTROLLER" excepted, and the
	// protocol of each is set by Config.
	Listeners []string
	// Heap bounds a Java broker's heap in megabytes, 400 unless set.
	Heap int
}

func (o Options) withDefaults() Options {
	if o.Software == "" {
		o.Software = KBroker
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if len(o.Listeners) == 0 {
		o.Listeners = []string{"PLAINTEXT"}
	}
	if o.Heap == 0 {
		o.Heap = 400
	}
	return o
}

// Cluster is a set of nodes that were started together. It is safe for concurrent use.
type Cluster struct {
	options Options
	nodes   []*Node
}

// Start runs a cluster and returns once every node serves and knows all the others. What it started ends with the
// Workspace, or by Close.
func (w *Workspace) Start(ctx context.Context, o Options) (*Cluster, error) {
	o = o.withDefaults()
	c := &Cluster{options: o}
	run, err := w.launcher(ctx, o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(w.dir, string(o.Software)+"-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(o.Nodes * (len(o.Listeners) + 1))
	if err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		own := ports[i*(len(o.Listeners)+1):]
		n := &Node{ID: int32(i + 1), dir: filepath.Join(dir, fmt.Sprint(i+1)), run: run, listeners: map[string]string{}}
		for j, name := range o.Listeners {
			n.listeners[name] = fmt.Sprintf("127.0.0.1:%d", own[j])
		}
		n.controller = fmt.Sprintf("127.0.0.1:%d", own[len(o.Listeners)])
		n.Addr = n.listeners[o.Listeners[0]]
		c.nodes = append(c.nodes, n)
	}
	w.add(c)
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare writes every node's files.
func (c *Cluster) prepare(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := os.MkdirAll(n.dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(n.configFile(), []byte(c.properties(n)), 0o600); err != nil {
			return err
		}
		if err := n.run.format(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) startAll(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = n.start(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.AwaitBrokers(ctx, len(c.nodes))
}

// AwaitBrokers returns once every running node, asked for the cluster's metadata, names that many brokers.
func (c *Cluster) AwaitBrokers(ctx context.Context, count int) error {
	for _, n := range c.nodes {
		if !n.Running() {
			continue
		}
		if err := n.await(ctx, count); err != nil {
			return err
		}
	}
	return nil
}

// properties is a node's server.properties.
func (c *Cluster) properties(n *Node) string {
	var voters, listeners, advertised, protocols []string
	for _, m := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", m.ID, m.controller))
	}
	for _, name := range c.options.Listeners {
		advertised = append(advertised, name+"://"+n.listeners[name])
		protocols = append(protocols, name+":PLAINTEXT")
	}
	listeners = append(slices.Clone(advertised), "CONTROLLER://"+n.controller)
	replicas := min(len(c.nodes), 3)
	p := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          fmt.Sprint(n.ID),
		"controller.quorum.voters":                         strings.Join(voters, ","),
		"listeners":                                        strings.Join(listeners, ","),
		"advertised.listeners":                             strings.Join(advertised, ","),
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       c.options.Listeners[0],
		"listener.security.protocol.map":                   strings.Join(append(protocols, "CONTROLLER:PLAINTEXT"), ","),
		"log.dirs":                                         n.LogDir(),
		"offsets.topic.replication.factor":                 fmt.Sprint(replicas),
		"transaction.state.log.replication.factor":         fmt.Sprint(replicas),
		"transaction.state.log.min.isr":                    fmt.Sprint(min(replicas, 2)),
		"share.coordinator.state.topic.replication.factor": fmt.Sprint(replicas),
		"share.coordinator.state.topic.min.isr":            "1",
		"offsets.topic.num.partitions":                     "5",
		"transaction.state.log.num.partitions":             "5",
		"share.coordinator.state.topic.num.partitions":     "5",
		"group.initial.rebalance.delay.ms":                 "0",
	}
	maps.Copy(p, n.run.extra())
	maps.Copy(p, c.options.Config)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", key, p[key])
	}
	return b.String()
}

// Name says what runs, for reports.
func (c *Cluster) Name() string {
	if c.options.Software == KBroker {
		return "kbroker"
	}
	return "Apache Kafka " + c.options.Version
}

// Software says whose broker runs.
func (c *Cluster) Software() Software { return c.options.Software }

// Bootstrap lists the nodes' addresses, as clients take it.
func (c *Cluster) Bootstrap() string {
	addrs := make([]string, 0, len(c.nodes))
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr)
	}
	return strings.Join(addrs, ",")
}

// Nodes are the nodes, by id from 1.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Close kills the nodes that run and removes their folders.
func (c *Cluster) Close() error {
	for _, n := range c.nodes {
		n.Kill()
	}
	if len(c.nodes) == 0 {
		return nil
	}
	return os.RemoveAll(filepath.Dir(c.nodes[0].dir))
}

// freePorts asks the kernel for ports. All are held until all are known, so that they differ.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// startLimit bounds a node's start. Java needs ten seconds on an idle machine.
const startLimit = 90 * time.Second

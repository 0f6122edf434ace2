package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/console"
	"github.com/kbroker/kbroker/internal/controller"
	"github.com/kbroker/kbroker/internal/groupcoord"
	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/kbroker/kbroker/internal/server"
	"github.com/kbroker/kbroker/internal/server/api"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/segment"
)

// Options says what a node is made of.
type Options struct {
	Config *config.Config
	FS     vfs.FS
	// Listen opens a socket; net.Listen in production.
	Listen func(network, address string) (net.Listener, error)
	Logger *zap.Logger
	// Banner gets the few lines for a person who has just started the node.
	Banner  io.Writer
	Version string
	// Registry takes the metrics; nil makes a new one.
	Registry *prometheus.Registry
}

// Bounds of a start and of a stop.
const (
	startTimeout    = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	// openFiles bounds the segment files kept open, with room for sockets below common limits.
	openFiles = 4096
)

// Node is a running kbroker. Start makes one, Stop ends it.
type Node struct {
	o    Options
	log  *zap.Logger
	cfg  atomic.Pointer[config.Config]
	dirs []*logdir.Dir

	clusterID  string
	quorum     *quorum.Quorum
	controller *controller.Controller
	broker     *broker.Broker
	groups     *groupcoord.Coordinator
	server     *server.Server
	console    *console.Console
	sockets    []server.Listener
	ready      atomic.Bool

	// loops are the components that run until their context ends, in the order of their start.
	loops  sync.WaitGroup
	cancel context.CancelFunc
	failed chan error // the first component that ended on its own
}

// Start brings a node up and returns once it serves clients. On error nothing is left running.
func Start(ctx context.Context, o Options) (*Node, error) {
	n := &Node{o: o, log: o.Logger, failed: make(chan error, 1)}
	n.cfg.Store(o.Config)
	if o.Registry == nil {
		n.o.Registry = prometheus.NewRegistry()
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.stop(false))
	}
	n.ready.Store(true)
	n.shedStartGarbage()
	n.log.Info("Transitioning from RECOVERY to RUNNING", zap.Int32("node", o.Config.Node.ID), zap.Duration("took", time.Since(begin)))
	return n, nil
}

// manyPartitions is from how many on the garbage of a start weighs more than what is kept.
const manyPartitions = 1000

// shedStartGarbage gives memory back that only the start has needed: reading the metadata log and opening the partitions
// take twice what these hold afterwards, and a node whose partitions are idle would keep it for ever.
func (n *Node) shedStartGarbage() {
	if n.broker.Image().PartitionCount() >= manyPartitions {
		debug.FreeOSMemory()
	}
}

func (n *Node) start(ctx context.Context) error {
	if err := n.checkAlone(); err != nil {
		return err
	}
	var run context.Context
	run, n.cancel = context.WithCancel(context.Background())
	for _, step := range []func() error{
		n.openDirs,
		n.openSockets, // early, so that a port in use is said before anything is written
		n.claimDirs,
		n.startConsole,
		n.banner,
		func() error { return n.startQuorum(run) },
		func() error { return n.startBroker(run) },
		func() error { return n.register(ctx, run) },
		n.startServer,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checkAlone refuses what this version does not do, before it half does it.
func (n *Node) checkAlone() error {
	c := n.o.Config.Node
	for _, v := range c.Voters {
		if v.ID != c.ID {
			return fmt.Errorf("controller.quorum.voters names node %d: this version runs a node alone; name only node %d there, or leave the key out", v.ID, c.ID)
		}
	}
	for _, l := range c.Listeners {
		if l.SecurityProtocol != config.Plaintext {
			return fmt.Errorf("listener %s: %s is not served by this version, only %s is", l.Name, l.SecurityProtocol, config.Plaintext)
		}
	}
	if !c.Broker || !c.Controller {
		return errors.New("process.roles: this version runs a node alone, which is broker and controller; set broker,controller or leave the key out")
	}
	return nil
}

// openDirs locks the log directories. One that cannot be used is left out as long as another can.
func (n *Node) openDirs() error {
	var errs []error
	for _, path := range n.o.Config.Node.LogDirs {
		d, err := logdir.Open(n.o.FS, path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n.dirs = append(n.dirs, d)
	}
	if len(n.dirs) == 0 {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		n.log.Error("log directory is offline; the others are served", zap.Error(err))
	}
	return nil
}

// claimDirs finds out which cluster the directories belong to, or makes one up for new ones, and marks them.
func (n *Node) claimDirs() error {
	for _, d := range n.dirs {
		if m, ok := d.Meta(); ok && m.ClusterID != "" {
			n.clusterID = m.ClusterID
			break
		}
	}
	if want := n.o.Config.Node.ClusterID; n.clusterID == "" {
		n.clusterID = want
	}
	if n.clusterID == "" {
		n.clusterID = model.NewUUID().String()
	}
	for _, d := range n.dirs {
		if err := d.Claim(n.clusterID, n.o.Config.Node.ID); err != nil {
			return err
		}
	}
	return nil
}

// run keeps a component running until its context ends; one that ends on its own takes the node down.
func (n *Node) run(name string, loop func() error) {
	n.loops.Add(1)
	go func() {
		defer n.loops.Done()
		if err := loop(); err != nil {
			select {
			case n.failed <- fmt.Errorf("%s: %w", name, err):
			default: // the first cause is the one to report
			}
		}
	}()
}

func (n *Node) startQuorum(ctx context.Context) error {
	var err error
	n.quorum, err = quorum.Open(quorum.Options{
		FS: n.o.FS, Dir: filepath.Join(n.o.Config.Node.MetadataLogDir, model.ClusterMetadataTopic+"-0"), NodeID: n.o.Config.Node.ID,
		Voters: []int32{n.o.Config.Node.ID}, Logger: n.log.Named("quorum"),
	})
	if err != nil {
		return err
	}
	n.controller, err = controller.New(controller.Options{
		Quorum: n.quorum, Config: n.o.Config, NodeID: n.o.Config.Node.ID, ClusterID: n.clusterID, Rand: newRand(), Logger: n.log.Named("controller"),
	})
	if err != nil {
		return err
	}
	n.run("controller", func() error { return n.controller.Run(ctx) })
	return nil
}

func newRand() *mathrand.Rand {
	var seed [16]byte
	_, _ = rand.Read(seed[:]) // documented never to fail
	return mathrand.New(mathrand.NewPCG(binary.NativeEndian.Uint64(seed[:]), binary.NativeEndian.Uint64(seed[8:])))
}

func (n *Node) startBroker(ctx context.Context) error {
	link := brokerLink{n: n}
	var err error
	coordinators := map[string]broker.Coordinator{}
	n.broker, err = broker.New(broker.Options{
		NodeID: n.o.Config.Node.ID, Config: n.o.Config, Logger: n.log.Named("broker"), Dirs: n.dirs, Files: segment.NewCache(openFiles),
		Controller: link, Coordinators: coordinators, ConfigChanged: n.cfg.Store,
		TopicsDeleted: n.topicsDeleted,
	})
	if err != nil {
		return err
	}
	n.groups, err = groupcoord.New(groupcoord.Options{
		Log: n.broker.CoordinatorLog(), Groups: n.o.Config.Groups, Offsets: n.o.Config.Offsets, Topics: groupcoord.ImageTopics(n.broker.Image),
		Partitions: n.offsetsPartitions, Logger: n.log.Named("groups"),
	})
	if err != nil {
		return err
	}
	coordinators[model.GroupMetadataTopic] = n.groups
	n.o.Registry.MustRegister(n.broker, groupMetrics{n.groups})
	n.broker.Start()
	n.run("group coordinator", func() error { return n.groups.Run(ctx) })
	n.quorum.Subscribe(func(_ *metadata.Image, d *metadata.Delta) { n.broker.Apply(d) })
	n.run("metadata quorum", func() error { return n.quorum.Run(ctx) })
	return nil
}

// topicsDeleted lets the group coordinator forget the offsets of deleted topics.
func (n *Node) topicsDeleted(topics []broker.DeletedTopic) {
	list := make([]groupcoord.DeletedTopic, len(topics))
	for i, t := range topics {
		list[i] = groupcoord.DeletedTopic(t)
	}
	n.groups.TopicsDeleted(list)
}

// offsetsPartitions is the number of partitions that the offsets topic has, or will have when somebody needs it.
func (n *Node) offsetsPartitions() int32 {
	if t := n.broker.Image().Topic(model.GroupMetadataTopic); t != nil {
		return int32(len(t.Partitions))
	}
	return n.cfg.Load().Offsets.TopicPartitions
}

func (n *Node) register(ctx, run context.Context) error {
	reg := broker.Registration{ClusterID: n.clusterID, Incarnation: model.NewUUID(), Listeners: n.advertised(), Rack: n.o.Config.Node.Rack}
	for _, f := range metadata.SupportedFeatures() {
		reg.Features = append(reg.Features, metadata.FeatureRange{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	if err := n.broker.Register(ctx, reg); err != nil {
		return err
	}
	n.run("heartbeats", func() error { n.broker.HeartbeatLoop(run, reg); return nil })
	// Unfencing elected this broker; a client let in before it has taken its roles would be sent away.
	return n.quorum.WaitPublished(ctx, n.quorum.Image().Offset())
}

func (n *Node) startServer() error {
	service := api.NewService(api.Backends{
		NodeID: n.o.Config.Node.ID, Data: n.broker, Cluster: clusterView{n}, Controller: controllerLink{n: n}, Groups: n.groups,
		ProducerIDs: n.broker, Authorizer: api.AllowAll{},
	}, newRand())
	n.o.Registry.MustRegister(service)
	var err error
	n.server, err = server.New(server.Options{Listeners: n.sockets, Service: service, Config: n.cfg.Load, Logger: n.log.Named("server"), Registerer: n.o.Registry})
	if err != nil {
		return err
	}
	n.sockets = nil // they are the server's now
	n.server.Start()
	return nil
}

func (n *Node) startConsole() error {
	c := n.o.Config.HTTP
	if c.Listener == "" {
		return nil
	}
	l, err := n.o.Listen("tcp", c.Listener)
	if err != nil {
		n.log.Warn("no console: its address cannot be opened; choose another one with http.listener, or none with http.listener=",
			zap.String("address", c.Listener), zap.Error(err))
		return nil
	}
	n.console = console.New(console.Options{Listener: l, Gatherer: n.o.Registry, Ready: n.Ready, Profiles: c.Profiles, Logger: n.log.Named("console")})
	return nil
}

// Ready returns nil while clients are served, else the reason why they are not.
func (n *Node) Ready() error {
	if !n.ready.Load() {
		return errors.New("starting or stopping")
	}
	return nil
}

// Failed yields an error when a component ends on its own; the node should be stopped then.
func (n *Node) Failed() <-chan error { return n.failed }

// Stop takes the node down in order: clients are answered and sent away, logs are flushed and marked as clean.
func (n *Node) Stop() error {
	n.ready.Store(false)
	n.log.Info("stopping")
	return n.stop(true)
}

func (n *Node) stop(started bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	var errs []error
	if started && n.o.Config.Node.ControlledShutdown && n.broker.Image().BrokerCount() > 1 {
		errs = append(errs, n.broker.HandOver(ctx))
	}
	if n.server != nil {
		errs = append(errs, n.server.Shutdown(ctx))
	}
	for _, l := range n.sockets {
		errs = append(errs, l.Socket.Close())
	}
	if n.console != nil {
		errs = append(errs, n.console.Close(ctx))
	}
	if n.cancel != nil {
		n.cancel()
	}
	n.loops.Wait()
	errs = append(errs, n.closeLogs(started))
	err := errors.Join(errs...)
	if started {
		n.log.Info("stopped", zap.Error(err))
	}
	return err
}

func (n *Node) closeLogs(started bool) error {
	var (
		clean map[*logdir.Dir]bool
		epoch = int64(-1)
		err   error
	)
	if n.broker != nil {
		clean, err = n.broker.Close()
		epoch = n.broker.Epoch()
	}
	for _, d := range n.dirs {
		err = errors.Join(err, d.Close(started && clean[d], epoch))
	}
	return err
}

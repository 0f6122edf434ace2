package broker

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition/segment"
)

// Controller carries requests to the active controller, wherever it runs.
type Controller interface {
	Forward(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// Options says what a Broker is made of. All fields are required unless noted.
type Options struct {
	NodeID int32
	Config *config.Config
	Logger *zap.Logger
	// Dirs are the claimed log directories, at least one.
	Dirs []*logdir.Dir
	// Files bounds the open files of all partitions together.
	Files      *segment.Cache
	Controller Controller
	// Coordinators, by the name of their topic, are told of leaderships; may be nil.
	Coordinators map[string]Coordinator
	// TopicsDeleted is called after topics are gone; may be nil.
	TopicsDeleted func([]DeletedTopic)
	// ConfigChanged is called with the new effective configuration when a dynamic setting changed; may be nil.
	ConfigChanged func(*config.Config)
}

// DeletedTopic names a topic that is gone.
type DeletedTopic struct {
	Name string
	ID   model.UUID
}

// Broker hosts partitions. Make one with New, Start it, let it Apply every change of
// the cluster image, Close it. All methods are safe for
// concurrent use.
type Broker struct {
	o      Options
	log    *zap.Logger
	config atomic.Pointer[config.Config]
	image  atomic.Pointer[metadata.Image]
	stats  stats
	ids    producerIDs

	byName sync.Map // topic name -> *hostedTopic
	byID   sync.Map // topic id -> *hostedTopic

	place    placement
	flushers map[*logdir.Dir]*flusher
	doomed   doomed
	dirty    checkpointDirt

	epoch  atomic.Int64 // broker epoch of the current registration
	loops  sync.WaitGroup
	ctx    context.Context // of the broker's life
	cancel context.CancelFunc
}

var _ DataPlane = (*Broker)(nil)

// New returns a broker that hosts nothing yet. It reads the checkpoints and lists the folders of the log directories.
func New(o Options) (*Broker, error) {
	b := &Broker{o: o, log: o.Logger, flushers: map[*logdir.Dir]*flusher{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.config.Store(o.Config)
	b.image.Store(metadata.Empty())
	b.epoch.Store(-1)
	for _, d := range o.Dirs {
		b.flushers[d] = newFlusher()
	}
	return b, b.place.load(o.Dirs, b.log)
}

// Config returns the effective configuration, dynamic settings included.
func (b *Broker) Config() *config.Config { return b.config.Load() }

// Start begins to look after the logs.
func (b *Broker) Start() {
	b.spawn(func() { b.maintain(b.ctx) })
	for _, f := range b.flushers {
		b.spawn(func() { f.run(b.ctx) })
	}
}

func (b *Broker) spawn(loop func()) {
	b.loops.Add(1)
	go func() {
		defer b.loops.Done()
		loop()
	}()
}

func (b *Broker) topicConfig(img *metadata.Image, topic string) (*config.Topic, error) {
	return b.Config().Topic(img.Config(metadata.ResourceTopic, topic))
}

func (b *Broker) flusherOf(r *replica) *flusher { return b.flushers[r.dir] }

func nodeName(id int32) string { return strconv.Itoa(int(id)) }

package controller

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/quorum"
	"go.uber.org/zap"
)

// Quorum is what the controller needs of the metadata quorum; *quorum.Quorum is one. Its methods are described there.
type Quorum interface {
	Image() *metadata.Image
	Leadership() quorum.Leadership
	Voters() []int32
	Watch(fn func())
	Submit(ctx context.Context, turn quorum.Turn, records []metadata.Record, done func(offset int64, err error)) error
	WaitPublished(ctx context.Context, offset int64) error
	Describe(ctx context.Context) (quorum.Description, error)
}

// Voter tells where a member of the quorum is, for DescribeQuorum.
type Voter struct {
	ID        int32
	Directory model.UUID // zero when the quorum is static
	Listeners []metadata.Listener
}

// Options configures a Controller.
type Options struct {
	Quorum Quorum
	// Config is this node's own configuration, without dynamic configs: those come from the image.
	Config *config.Config
	NodeID int32
	// ClusterID is written into a new metadata log and compared with that of an old one.
	ClusterID string
	// Voters describes the quorum's members; those left out are shown without listeners.
	Voters []Voter
	// Rand is used by the loop alone. It decides placement and topic ids.
	Rand   *rand.Rand
	Logger *zap.Logger
}

// Validate reports everything that is missing at once.
func (o *Options) Validate() error {
	var errs []error
	for what, missing := range map[string]bool{
		"quorum": o.Quorum == nil, "configuration": o.Config == nil, "cluster id": o.ClusterID == "", "random numbers": o.Rand == nil,
	} {
		if missing {
			errs = append(errs, errors.New("controller: no "+what))
		}
	}
	return errors.Join(errs...)
}

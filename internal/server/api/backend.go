package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/groupcoord"
	"github.com/kbroker/kbroker/internal/metadata"
)

// Backends are what the handlers stand on. All of them are safe for concurrent use.
type Backends struct {
	// NodeID is this broker.
	NodeID int32
	// Data holds the partitions of this broker.
	Data broker.DataPlane
	// Cluster is what this broker knows of the cluster and of itself.
	Cluster Cluster
	// Controller decides about the cluster, here or on another node.
	Controller Controller
	// Groups coordinates the groups whose partition of the offsets topic this broker leads.
	Groups Groups
	// ProducerIDs hands out ids to idempotent producers.
	ProducerIDs ProducerIDs
	// Transactions is nil as long as this broker coordinates none; requests that need it are then refused.
	Transactions Transactions
	// Authorizer is never nil: AllowAll is the one to use when none is configured.
	Authorizer Authorizer
}

// Cluster is the view of the cluster and of this broker's configuration.
type Cluster interface {
	// Image is the newest image that this broker has applied to its own partitions.
	Image() *metadata.Image
	// Leader is the active controller, -1 when there is none.
	Leader() (id, epoch int32)
	// Config is the configuration in force, dynamic configs included.
	Config() *config.Config
}

// Caller says on whose behalf a request goes to the controller.
type Caller struct {
	// Principal has Kafka's form type:name.
	Principal string
	// Host is the address of the client without port.
	Host string
	// Listener is the name of the listener the request came in by.
	Listener string
	// ClientID is empty when the client gave none.
	ClientID string
}

// Controller serves the requests that change the cluster or ask the quorum. The answer is of the request's kind and
// version. An error says that no controller answered: it is shaped into the answer by the handler, so it should wrap a
// *kerr.Error. When a change answers without error, Cluster.Image shows it already.
type Controller interface {
	Forward(ctx context.Context, who Caller, req kmsg.Request) (kmsg.Response, error)
}

// ProducerIDs hands out producer ids, each one once in the life of the cluster. It may have to ask the controller, and
// waits for it no longer than ctx.
type ProducerIDs interface {
	NextProducerID(ctx context.Context) (int64, error)
}

// Groups is the coordinator of classic groups. Requests for a group that belongs to another broker are answered with
// NOT_COORDINATOR. Byte slices of a request that the coordinator keeps belong to it: the frame they point into is never
// reused. Join and Sync block until the rebalance is over or ctx ends.
type Groups interface {
	// PartitionFor returns the partition of the offsets topic that a group belongs to.
	PartitionFor(group string) int32

	Join(ctx context.Context, c groupcoord.Client, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse
	Sync(ctx context.Context, c groupcoord.Client, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse
	Heartbeat(ctx context.Context, c groupcoord.Client, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse
	Leave(ctx context.Context, c groupcoord.Client, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse
	OffsetCommit(ctx context.Context, c groupcoord.Client, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse
	OffsetFetch(ctx context.Context, c groupcoord.Client, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse
	OffsetDelete(ctx context.Context, c groupcoord.Client, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse
	DescribeGroups(ctx context.Context, c groupcoord.Client, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse
	ListGroups(ctx context.Context, c groupcoord.Client, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse
	DeleteGroups(ctx context.Context, c groupcoord.Client, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse
}

// Transactions is the coordinator of transactions. Requests for a transactional id that belongs to another broker are
// answered with NOT_COORDINATOR.
type Transactions interface {
	// PartitionFor returns the partition of the transaction topic that a transactional id belongs to.
	PartitionFor(transactionalID string) int32

	InitProducerID(ctx context.Context, who Caller, req *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse
}

// Resource is what an operation is done to. Name is "kafka-cluster" for the cluster itself.
type Resource struct {
	Type kmsg.ACLResourceType
	Name string
}

// Authorizer decides who may do what. It must be fast: it is asked once per topic of every request.
type Authorizer interface {
	// Enabled reports whether access control is configured at all. Without it, requests about ACLs are refused with
	// SECURITY_DISABLED.
	Enabled() bool
	// Allowed reports whether a caller may do an operation.
	Allowed(who Caller, op kmsg.ACLOperation, on Resource) bool
	// AllowedSomewhere reports whether a caller may do an operation on at least one resource of a type.
	AllowedSomewhere(who Caller, op kmsg.ACLOperation, on kmsg.ACLResourceType) bool
}

// AllowAll is the Authorizer of a broker without access control.
type AllowAll struct{}

// Enabled implements Authorizer.
func (AllowAll) Enabled() bool { return false }

// Allowed implements Authorizer.
func (AllowAll) Allowed(Caller, kmsg.ACLOperation, Resource) bool { return true }

// AllowedSomewhere implements Authorizer.
func (AllowAll) AllowedSomewhere(Caller, kmsg.ACLOperation, kmsg.ACLResourceType) bool { return true }

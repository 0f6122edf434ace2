package groupcoord

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
)

const (
	// leaveBatchedVersion is the LeaveGroup from which on several members may leave at once.
	leaveBatchedVersion = 3
	// syncProtocolVersion is the SyncGroup from which on a member must say what it takes the group's protocol to be.
	syncProtocolVersion = 5
)

// once passes the first answer on and drops others: an operation may fail after its request was answered.
func once[T any](ch chan T) func(T) {
	return func(v T) {
		select {
		case ch <- v:
		default:
		}
	}
}

// Join handles JoinGroup 0-9. It returns when the rebalance is over, or when ctx ends; the member stays in the group then.
func (c *Coordinator) Join(ctx context.Context, client Client, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	r := c.join(ctx, client, req)
	r.Version = req.Version
	return r
}

func (c *Coordinator) join(ctx context.Context, client Client, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch {
	case req.Group == "":
		return joinError(kerr.InvalidGroupID, req.MemberID)
	case session < c.opts.Groups.MinSessionTimeout || session > c.opts.Groups.MaxSessionTimeout:
		return joinError(kerr.InvalidSessionTimeout, req.MemberID)
	}
	if req.Version == 0 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	ch := make(chan *kmsg.JoinGroupResponse, 1)
	reply := once(ch)
	c.rt.Submit(c.PartitionFor(req.Group), func(s *Shard, now time.Time) coordrt.Result {
		return s.Join(now, client, req, reply)
	}, func(err error) {
		if err != nil {
			reply(joinError(coordrt.ErrorOf(err), ""))
		}
	})
	select {
	case r := <-ch:
		return r
	case <-ctx.Done():
		return joinError(kerr.CoordinatorNotAvailable, req.MemberID)
	}
}

// Sync handles SyncGroup 0-5. It returns when the leader's assignment is there, or none will be, or ctx ends.
func (c *Coordinator) Sync(ctx context.Context, _ Client, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	r := c.sync(ctx, req)
	r.Version = req.Version
	return r
}

func (c *Coordinator) sync(ctx context.Context, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	switch {
	case req.Version >= syncProtocolVersion && (req.ProtocolType == nil || req.Protocol == nil):
		return syncError(kerr.InconsistentGroupProtocol)
	case req.Group == "":
		return syncError(kerr.InvalidGroupID)
	}
	ch := make(chan *kmsg.SyncGroupResponse, 1)
	reply := once(ch)
	c.rt.Submit(c.PartitionFor(req.Group), func(s *Shard, now time.Time) coordrt.Result {
		return s.Sync(now, req, reply)
	}, func(err error) {
		if err != nil {
			reply(syncError(coordrt.ErrorOf(err)))
		}
	})
	select {
	case r := <-ch:
		return r
	case <-ctx.Done():
		return syncError(kerr.CoordinatorNotAvailable)
	}
}

// Heartbeat handles Heartbeat 0-4. While the partition is being loaded it is well with every member: the load gives it a
// new session.
func (c *Coordinator) Heartbeat(ctx context.Context, _ Client, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	r := kmsg.NewPtrHeartbeatResponse()
	r.Version = req.Version
	if req.Group == "" {
		r.ErrorCode = kerr.InvalidGroupID.Code
		return r
	}
	_, err := coordrt.Write(ctx, c.rt, c.PartitionFor(req.Group), func(s *Shard, now time.Time) (coordrt.Result, struct{}, error) {
		return soft(), struct{}{}, asError(s.Heartbeat(now, req))
	})
	if e := coordrt.ErrorOf(err); e != nil && e != kerr.CoordinatorLoadInProgress {
		r.ErrorCode = e.Code
	}
	return r
}

// asError keeps a nil *kerr.Error from becoming an error that is not nil.
func asError(e *kerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// Leave handles LeaveGroup 0-5.
func (c *Coordinator) Leave(ctx context.Context, _ Client, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	if req.Version < leaveBatchedVersion {
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	r := c.leave(ctx, req)
	r.Version = req.Version
	if req.Version < leaveBatchedVersion && r.ErrorCode == 0 && len(r.Members) > 0 {
		r.ErrorCode = r.Members[0].ErrorCode
	}
	return r
}

func (c *Coordinator) leave(ctx context.Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	failed := kmsg.NewPtrLeaveGroupResponse()
	if req.Group == "" {
		failed.ErrorCode = kerr.InvalidGroupID.Code
		return failed
	}
	r, err := coordrt.Write(ctx, c.rt, c.PartitionFor(req.Group), func(s *Shard, now time.Time) (coordrt.Result, *kmsg.LeaveGroupResponse, error) {
		res, r := s.Leave(now, req)
		return res, r, nil
	})
	if err != nil {
		failed.ErrorCode = coordrt.ErrorOf(err).Code
		return failed
	}
	return r
}

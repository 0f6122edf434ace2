package controller

import (
	"context"
	"time"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeQuorum answers DescribeQuorum (key 55). It is asked of the quorum, not of the image, and so is no decision.
func (c *Controller) describeQuorum(ctx context.Context, req *kmsg.DescribeQuorumRequest) (kmsg.Response, error) {
	d, err := c.opts.Quorum.Describe(ctx)
	if err != nil {
		return nil, err
	}
	if !d.Active {
		return nil, errNotActive
	}
	return shapeQuorum(req, &d, c.opts.Voters), nil
}

func shapeQuorum(req *kmsg.DescribeQuorumRequest, d *quorum.Description, known []Voter) *kmsg.DescribeQuorumResponse {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	none := ""
	resp.ErrorMessage = &none
	asked := false
	for i := range req.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			if t.Topic != model.ClusterMetadataTopic || p.Partition != 0 {
				out := kmsg.NewDescribeQuorumResponseTopicPartition()
				out.Partition, out.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
				out.ErrorMessage = &kerr.UnknownTopicOrPartition.Description
				t.Partitions = append(t.Partitions, out)
				continue
			}
			asked = true
			t.Partitions = append(t.Partitions, quorumPartition(d, known))
		}
		resp.Topics = append(resp.Topics, t)
	}
	if !asked {
		return resp
	}
	for _, r := range d.Voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = r.ID
		for _, l := range voterOf(known, r.ID).Listeners {
			n.Listeners = append(n.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: l.Name, Host: l.Host, Port: l.Port})
		}
		resp.Nodes = append(resp.Nodes, n)
	}
	return resp
}

func quorumPartition(d *quorum.Description, known []Voter) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	none := ""
	p.ErrorMessage = &none
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = d.LeaderID, d.Epoch, d.HighWatermark
	for _, r := range d.Voters {
		p.CurrentVoters = append(p.CurrentVoters, quorumReplica(r, known))
	}
	for _, r := range d.Observers {
		p.Observers = append(p.Observers, quorumReplica(r, known))
	}
	return p
}

func quorumReplica(r quorum.Replica, known []Voter) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	s.ReplicaID, s.LogEndOffset, s.ReplicaDirectoryID = r.ID, r.LogEndOffset, voterOf(known, r.ID).Directory
	s.LastFetchTimestamp, s.LastCaughtUpTimestamp = millis(r.LastFetch), millis(r.LastCaughtUp)
	return s
}

func voterOf(known []Voter, id int32) Voter {
	for _, v := range known {
		if v.ID == id {
			return v
		}
	}
	return Voter{}
}

// millis returns -1 for never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

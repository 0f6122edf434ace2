package api

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// Fetch (key 1) reads records, for consumers and for followers. Records are not copied here: see FetchAnswer.
func fetchAPI() API {
	return API{
		Key: 1, Min: 4, Max: 18,
		Since: []string{
			"v4 isolation level and aborted transactions", "v5 log start offset", "v7 fetch sessions (KIP-227)",
			"v9 current leader epoch (KIP-320)", "v11 rack and preferred read replica (KIP-392)",
			"v12 last fetched epoch and divergence (KIP-595)", "v13 topic ids (KIP-516)", "v15 replica state (KIP-903)",
			"v16 endpoints of new leaders (KIP-951)", "v17 directory id of the follower (KIP-853)",
			"v18 high watermark of the follower (KIP-1166)",
		},
		Deviations: []string{"Versions 0-3 carry message formats that Apache Kafka 4 has dropped too and are refused."},
		serve:      (*Service).fetch,
	}
}

func (s *Service) fetch(ctx context.Context, r *Request, reply func(Reply)) {
	q := r.Body.(*kmsg.FetchRequest)
	replica, replicaEpoch := q.ReplicaID, int64(-1)
	if q.Version >= 15 {
		replica, replicaEpoch = q.ReplicaState.ID, q.ReplicaState.Epoch
	}
	fc, err := s.sessions.begin(time.Now(), fetchStart{
		id: q.SessionID, epoch: q.SessionEpoch, usesIDs: q.Version >= 13, follower: replica >= 0,
		parts: fetchPartitions(q), forgotten: forgottenPartitions(q),
	})
	if err != nil {
		resp := newFetchResponse(q.Version)
		resp.ErrorCode = protocol.CodeOf(err)
		reply(Reply{Fetch: &FetchAnswer{Response: resp}})
		return
	}
	s.authorizeFetch(r, replica >= 0, fc.parts)
	maxBytes := min(q.MaxBytes, s.Cluster.Config().Sockets.FetchMaxBytes)
	req := broker.FetchRequest{
		ReplicaID: replica, ReplicaEpoch: replicaEpoch,
		MaxWait:  time.Duration(q.MaxWaitMillis) * time.Millisecond,
		MinBytes: min(q.MinBytes, maxBytes), MaxBytes: maxBytes,
		ReadCommitted: q.IsolationLevel == 1, Rack: q.Rack, Partitions: fc.parts,
	}
	version, listener := q.Version, r.Peer.Listener
	s.Data.Fetch(ctx, req, func(results []broker.FetchedPartition) {
		reply(Reply{Fetch: s.fetchAnswer(fc, version, listener, req.ReadCommitted, results)})
	})
}

// fetchPartitions lists what a request names, in order.
func fetchPartitions(q *kmsg.FetchRequest) []broker.FetchPartition {
	n := 0
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	parts := make([]broker.FetchPartition, 0, n)
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			hw := p.HighWatermark
			if hw == math.MaxInt64 { // the follower does not know this field
				hw = model.NoOffset
			}
			parts = append(parts, broker.FetchPartition{
				Topic: broker.TopicRef{Name: t.Topic, ID: t.TopicID}, Partition: p.Partition, Offset: p.FetchOffset,
				MaxBytes: p.PartitionMaxBytes, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				LastFetchedEpoch: p.LastFetchedEpoch, FollowerLogStartOffset: p.LogStartOffset,
				FollowerHighWatermark: hw, FollowerDirectory: p.ReplicaDirectoryID,
			})
		}
	}
	return parts
}

func forgottenPartitions(q *kmsg.FetchRequest) []partitionKey {
	var keys []partitionKey
	for i := range q.ForgottenTopics {
		t := &q.ForgottenTopics[i]
		for _, p := range t.Partitions {
			keys = append(keys, partitionKey{topic: broker.TopicRef{Name: t.Topic, ID: t.TopicID}, partition: p})
		}
	}
	return keys
}

// authorizeFetch marks the partitions that the requester may not read, and those whose topic id nobody knows.
func (s *Service) authorizeFetch(r *Request, follower bool, parts []broker.FetchPartition) {
	img := s.Cluster.Image()
	denied := follower && !s.mayCluster(r, kmsg.ACLOperationClusterAction)
	for i := range parts {
		p := &parts[i]
		name := p.Topic.Name
		if r.Version >= 13 {
			t := img.TopicByID(p.Topic.ID)
			if t == nil {
				p.Err = kerr.UnknownTopicID
				continue
			}
			name = t.Name
		}
		if denied || !follower && !s.mayTopic(r, kmsg.ACLOperationRead, name) {
			p.Err = kerr.TopicAuthorizationFailed
		}
	}
}

func newFetchResponse(version int16) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	return resp
}

// fetchAnswer shapes the results, and releases those that the answer leaves out.
func (s *Service) fetchAnswer(fc *fetchContext, version int16, listener string, committed bool, results []broker.FetchedPartition) *FetchAnswer {
	resp := newFetchResponse(version)
	a := &FetchAnswer{Response: resp}
	for i := range results {
		if r := &results[i]; r.Err != nil { // what is known of a log that cannot be read is not told
			r.Read.HighWatermark, r.Read.LastStableOffset, r.Read.LogStartOffset = model.NoOffset, model.NoOffset, model.NoOffset
		}
	}
	id, include, err := fc.finish(time.Now(), results)
	resp.SessionID = id
	if err != nil {
		resp.ErrorCode = protocol.CodeOf(err)
		for i := range results {
			results[i].Read.Release()
		}
		return a
	}
	a.records = make([]Records, 0, len(results))
	leaders := newLeaderHints(s.Cluster.Image(), listener)
	for i := range results {
		res := &results[i]
		if include != nil && !include[i] {
			res.Read.Release()
			continue
		}
		t := fetchTopic(resp, fc.parts[i].Topic)
		t.Partitions = append(t.Partitions, fetchedPartition(version, committed, fc.parts[i].Partition, res))
		if version >= 16 && leaders.useful(res.Err, res.LeaderID) {
			leader := &t.Partitions[len(t.Partitions)-1].CurrentLeader
			leader.LeaderID, leader.LeaderEpoch = res.LeaderID, res.LeaderEpoch
		}
		var records Records // a nil *Slice in it would not be nil
		if res.Read.Records != nil {
			records = res.Read.Records
		}
		a.records = append(a.records, records)
	}
	for _, b := range leaders.brokers() {
		fb := kmsg.NewFetchResponseBroker()
		fb.NodeID, fb.Host, fb.Port, fb.Rack = b.id, b.host, b.port, b.rack
		resp.Brokers = append(resp.Brokers, fb)
	}
	return a
}

// fetchTopic returns the topic of the answer that the next partition belongs to: neighbours share one.
func fetchTopic(resp *kmsg.FetchResponse, ref broker.TopicRef) *kmsg.FetchResponseTopic {
	if n := len(resp.Topics); n > 0 {
		if last := &resp.Topics[n-1]; last.Topic == ref.Name && last.TopicID == ref.ID {
			return last
		}
	}
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = ref.Name, ref.ID
	resp.Topics = append(resp.Topics, t)
	return &resp.Topics[len(resp.Topics)-1]
}

func fetchedPartition(version int16, committed bool, partition int32, res *broker.FetchedPartition) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = partition, protocol.CodeOf(res.Err)
	if version <= 5 && errors.Is(res.Err, kerr.KafkaStorageError) {
		p.ErrorCode = kerr.NotLeaderForPartition.Code // these clients do not know the other one
	}
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = res.Read.HighWatermark, res.Read.LastStableOffset, res.Read.LogStartOffset
	p.PreferredReadReplica = res.PreferredReadReplica
	p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = res.DivergingEpoch, res.DivergingEndOffset
	switch {
	case res.Err != nil && wasNotRead(p.ErrorCode):
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	case committed && res.Err == nil:
		p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(res.Read.Aborted))
		for i, txn := range res.Read.Aborted {
			p.AbortedTransactions[i].ProducerID, p.AbortedTransactions[i].FirstOffset = txn.ProducerID, txn.FirstOffset
		}
	}
	return p
}

// wasNotRead reports whether an error was found before the log was looked at. Apache Kafka then answers with an empty list
// of aborted transactions, and with none after a failed read.
func wasNotRead(code int16) bool {
	return code == kerr.UnknownTopicOrPartition.Code || code == kerr.UnknownTopicID.Code || code == kerr.TopicAuthorizationFailed.Code
}

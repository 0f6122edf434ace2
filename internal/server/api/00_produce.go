package api

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// produceMin is the first version that carries record batches of the current format.
const produceMin = 3

// Produce (key 0) appends record batches. The next request of the connection is taken while this one waits for followers:
// answers keep their order all the same.
func produceAPI() API {
	return API{
		Key: 0, Min: produceMin, Max: 13, Refused: produceMin, Overlaps: true,
		Since: []string{
			"v3 record batches and transactional id (KIP-98)", "v5 log start offset", "v7 zstd (KIP-110)",
			"v8 errors of single records (KIP-467)", "v10 endpoints of new leaders (KIP-951)",
			"v11 retriable transaction errors (KIP-890)", "v12 partitions join the transaction implicitly (KIP-890)",
			"v13 topic ids (KIP-516)",
		},
		Deviations: []string{
			"Versions 0-2 are advertised as Apache Kafka does, for clients that look for them, and answered with UNSUPPORTED_VERSION; Apache Kafka closes the connection.",
			"The connection is not muted while acks=all waits for followers, so pipelined requests are appended at once; the order of answers is kept.",
		},
		serve: (*Service).produce,
	}
}

// produceJob is one Produce request with the partitions that go to the broker and those that do not.
type produceJob struct {
	q *kmsg.ProduceRequest
	// errs holds what was found before the broker was asked, by position in the request; nil where it is to be asked.
	errs []error
	req  broker.ProduceRequest
}

func (s *Service) produce(ctx context.Context, r *Request, reply func(Reply)) {
	job := s.produceJob(r, r.Body.(*kmsg.ProduceRequest))
	listener := r.Peer.Listener
	if len(job.req.Partitions) == 0 {
		reply(s.produceReply(job, listener, nil))
		return
	}
	s.Data.Produce(ctx, job.req, func(results []broker.ProduceResult) { reply(s.produceReply(job, listener, results)) })
}

// produceJob finds out which partitions may be written.
func (s *Service) produceJob(r *Request, q *kmsg.ProduceRequest) *produceJob {
	n := 0
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	job := &produceJob{q: q, errs: make([]error, 0, n), req: broker.ProduceRequest{
		Acks: q.Acks, Timeout: time.Duration(q.TimeoutMillis) * time.Millisecond, TransactionalID: q.TransactionID,
		ImplicitAdd: q.Version >= 12, Version: q.Version, Partitions: make([]broker.ProducePartition, 0, n),
	}}
	refused := s.refuseProduce(r, q)
	img := s.Cluster.Image()
	for i := range q.Topics {
		t := &q.Topics[i]
		err := refused
		if err == nil {
			err = s.authorizeProduce(r, img, t)
		}
		for j := range t.Partitions {
			job.errs = append(job.errs, err)
			if err == nil {
				p := &t.Partitions[j]
				job.req.Partitions = append(job.req.Partitions, broker.ProducePartition{
					Topic: broker.TopicRef{Name: t.Topic, ID: t.TopicID}, Partition: p.Partition, Records: p.Records,
				})
			}
		}
	}
	return job
}

// refuseProduce returns what is wrong with the request as a whole.
func (s *Service) refuseProduce(r *Request, q *kmsg.ProduceRequest) error {
	if q.Version < produceMin {
		return kerr.UnsupportedVersion
	}
	if !s.Authorizer.Enabled() || !hasTransactionalBatch(q) {
		return nil
	}
	if q.TransactionID == nil || !s.may(r, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, *q.TransactionID) {
		return kerr.TransactionalIDAuthorizationFailed
	}
	return nil
}

// hasTransactionalBatch looks at the attributes of each partition's first batch, the only one there may be. What is too
// short to have any is refused by the broker.
func hasTransactionalBatch(q *kmsg.ProduceRequest) bool {
	const attributesAt, transactional = 21, 1 << 4
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			b := q.Topics[i].Partitions[j].Records
			if len(b) >= attributesAt+2 && binary.BigEndian.Uint16(b[attributesAt:])&transactional != 0 {
				return true
			}
		}
	}
	return false
}

func (s *Service) authorizeProduce(r *Request, img *metadata.Image, t *kmsg.ProduceRequestTopic) error {
	name := t.Topic
	if r.Version >= 13 {
		topic := img.TopicByID(t.TopicID)
		if topic == nil {
			return kerr.UnknownTopicID
		}
		name = topic.Name
	}
	if !s.mayTopic(r, kmsg.ACLOperationWrite, name) {
		return kerr.TopicAuthorizationFailed
	}
	return nil
}

// produceReply shapes the answer. With acks=0 there is none: an error can only be shown by closing the connection, which
// makes the client look for a new leader.
func (s *Service) produceReply(job *produceJob, listener string, results []broker.ProduceResult) Reply {
	if job.q.Acks == 0 {
		for _, err := range job.errs {
			if err != nil {
				return Reply{Close: true}
			}
		}
		for i := range results {
			if results[i].Err != nil {
				return Reply{Close: true}
			}
		}
		return Reply{}
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = job.q.Version
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(job.q.Topics))
	leaders := newLeaderHints(s.Cluster.Image(), listener)
	at := 0
	for i := range job.q.Topics {
		qt, rt := &job.q.Topics[i], &resp.Topics[i]
		rt.Topic, rt.TopicID = qt.Topic, qt.TopicID
		rt.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(qt.Partitions))
		for j := range qt.Partitions {
			res := broker.ProduceResult{Err: job.errs[at], BaseOffset: model.NoOffset, LogAppendTime: model.NoTimestamp,
				LogStartOffset: model.NoOffset, LeaderID: model.NoLeader, LeaderEpoch: model.NoEpoch}
			if res.Err == nil {
				res, results = results[0], results[1:]
			}
			at++
			fillProduced(&rt.Partitions[j], qt.Partitions[j].Partition, &res)
			if job.q.Version >= 10 && errors.Is(res.Err, kerr.NotLeaderForPartition) && leaders.useful(res.Err, res.LeaderID) {
				rt.Partitions[j].CurrentLeader.LeaderID, rt.Partitions[j].CurrentLeader.LeaderEpoch = res.LeaderID, res.LeaderEpoch
			}
		}
	}
	for _, b := range leaders.brokers() {
		pb := kmsg.NewProduceResponseBroker()
		pb.NodeID, pb.Host, pb.Port, pb.Rack = b.id, b.host, b.port, b.rack
		resp.Brokers = append(resp.Brokers, pb)
	}
	return Reply{Message: resp}
}

func fillProduced(p *kmsg.ProduceResponseTopicPartition, partition int32, res *broker.ProduceResult) {
	p.Default()
	p.Partition, p.ErrorCode = partition, protocol.CodeOf(res.Err)
	p.BaseOffset, p.LogAppendTime, p.LogStartOffset = res.BaseOffset, res.LogAppendTime, res.LogStartOffset
	for _, re := range res.RecordErrors {
		er := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		er.RelativeOffset, er.ErrorMessage = re.Index, &re.Message
		p.ErrorRecords = append(p.ErrorRecords, er)
	}
	if res.Err != nil {
		p.ErrorMessage = protocol.MessageOf(res.Err)
	}
}

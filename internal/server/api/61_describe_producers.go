package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeProducers (key 61) lists the producers that a partition knows, to find hanging transactions (KIP-664).
func describeProducersAPI() API {
	return API{Key: 61, Min: 0, Max: 0, serve: answer((*Service).describeProducers)}
}

func (s *Service) describeProducers(_ context.Context, r *Request, q *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for i := range q.Topics {
		qt := &q.Topics[i]
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = qt.Topic
		var refused error
		switch {
		case !isTopicName(qt.Topic):
			refused = kerr.InvalidTopicException
		case !s.mayTopic(r, kmsg.ACLOperationRead, qt.Topic):
			refused = kerr.TopicAuthorizationFailed
		}
		for _, p := range qt.Partitions {
			rt.Partitions = append(rt.Partitions, s.producersOf(model.TopicPartition{Topic: qt.Topic, Partition: p}, refused))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (s *Service) producersOf(tp model.TopicPartition, err error) kmsg.DescribeProducersResponseTopicPartition {
	rp := kmsg.NewDescribeProducersResponseTopicPartition()
	rp.Partition, rp.ActiveProducers = tp.Partition, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
	if err == nil {
		states, descErr := s.Data.DescribeProducers(tp)
		err = descErr
		for _, st := range states {
			ap := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			ap.ProducerID, ap.ProducerEpoch = st.ProducerID, int32(st.Epoch)
			ap.LastSequence, ap.LastTimestamp = st.LastSequence, st.LastTimestamp
			ap.CoordinatorEpoch, ap.CurrentTxnStartOffset = st.CoordinatorEpoch, st.TxnFirstOffset
			rp.ActiveProducers = append(rp.ActiveProducers, ap)
		}
	}
	if err != nil {
		rp.ErrorCode, rp.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
	}
	return rp
}

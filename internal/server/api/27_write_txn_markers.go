package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/protocol"
)

// WriteTxnMarkers (key 27) ends transactions in the logs of partitions. It is sent by transaction coordinators, and by
// kafka-transactions to abort a hanging transaction (KIP-664).
func writeTxnMarkersAPI() API {
	return API{Key: 27, Min: 1, Max: 2, Since: []string{"v2 version of the transaction (KIP-1228)"}, serve: answer((*Service).writeTxnMarkers)}
}

// markersAtOnce bounds how many markers of one request wait for followers at the same time.
const markersAtOnce = 16

func (s *Service) writeTxnMarkers(ctx context.Context, r *Request, q *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	resp.Markers = make([]kmsg.WriteTxnMarkersResponseMarker, len(q.Markers))
	allowed := s.mayCluster(r, kmsg.ACLOperationClusterAction) || s.mayCluster(r, kmsg.ACLOperationAlter)
	var g errgroup.Group
	g.SetLimit(markersAtOnce)
	for i := range q.Markers {
		m, rm := &q.Markers[i], &resp.Markers[i]
		var slots []*kmsg.WriteTxnMarkersResponseMarkerTopicPartition
		var tps []model.TopicPartition
		*rm, slots, tps = markerAnswer(m)
		if !allowed {
			for _, p := range slots {
				p.ErrorCode = kerr.ClusterAuthorizationFailed.Code
			}
			continue
		}
		g.Go(func() error {
			for k, err := range s.Data.WriteMarkers(ctx, broker.MarkerRequest{Marker: marker(m), Partitions: tps}) {
				slots[k].ErrorCode = protocol.CodeOf(err)
			}
			return nil
		})
	}
	_ = g.Wait() // errors stand in the answer
	return resp
}

// markerAnswer returns the answer for one marker without errors, and its partitions in order.
func markerAnswer(m *kmsg.WriteTxnMarkersRequestMarker) (kmsg.WriteTxnMarkersResponseMarker, []*kmsg.WriteTxnMarkersResponseMarkerTopicPartition, []model.TopicPartition) {
	rm := kmsg.NewWriteTxnMarkersResponseMarker()
	rm.ProducerID = m.ProducerID
	rm.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(m.Topics))
	var slots []*kmsg.WriteTxnMarkersResponseMarkerTopicPartition
	var tps []model.TopicPartition
	for i := range m.Topics {
		rt := &rm.Topics[i]
		rt.Topic = m.Topics[i].Topic
		rt.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(m.Topics[i].Partitions))
		for k, p := range m.Topics[i].Partitions {
			rt.Partitions[k].Partition = p
			slots = append(slots, &rt.Partitions[k])
			tps = append(tps, model.TopicPartition{Topic: rt.Topic, Partition: p})
		}
	}
	return rm, slots, tps
}

func marker(m *kmsg.WriteTxnMarkersRequestMarker) partition.Marker {
	return partition.Marker{
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, Commit: m.Committed,
		CoordinatorEpoch: m.CoordinatorEpoch, TransactionVersion: int16(m.TransactionVersion),
	}
}

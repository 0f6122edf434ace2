package controller

import (
	"math"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDBlock is how many producer ids a broker gets at once, as in Kafka.
const producerIDBlock = 1000

// allocateProducerIDs answers AllocateProducerIDs (key 67). No id is ever handed out twice: a broker that stops leaves the
// rest of its block unused.
func (v *view) allocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) decision {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	_, err := v.checkBroker(req.BrokerID, req.BrokerEpoch)
	first := v.img.NextProducerID()
	if err == nil && first > math.MaxInt64-producerIDBlock {
		err = refuse(kerr.UnknownServerError, "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit")
	}
	if err != nil {
		resp.ErrorCode, _ = answerOf(err)
		return decision{response: resp}
	}
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlock
	return decision{response: resp, records: []metadata.Record{
		&metadata.ProducerIDsRecord{BrokerID: req.BrokerID, BrokerEpoch: req.BrokerEpoch, Next: first + producerIDBlock},
	}}
}

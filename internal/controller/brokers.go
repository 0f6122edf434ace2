package controller

import (
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
)

// What the coming and going of brokers does to partitions. Each function looks at every partition once: at 100,000 of
// them that is some milliseconds, and an index would cost every other change.

// checkBroker returns the registration that a request of a broker belongs to.
func (v *view) checkBroker(id int32, epoch int64) (*metadata.Broker, error) {
	b := v.img.Broker(id)
	if b == nil {
		return nil, refuse(kerr.BrokerIDNotRegistered, "Broker ID %d is not currently registered", id)
	}
	if b.Epoch != epoch {
		return nil, refuse(kerr.StaleBrokerEpoch, "Expected broker epoch %d, but got broker epoch %d", b.Epoch, epoch)
	}
	return b, nil
}

// afterBroker returns change followed by what it does to the partitions of the broker, which are picked by touches.
func (v *view) afterBroker(change metadata.Record, edit func(after *view, t *metadata.Topic, index int32) *partitionChange) ([]metadata.Record, error) {
	after, err := v.with(change)
	if err != nil {
		return nil, err
	}
	records := []metadata.Record{change}
	for t := range after.img.AllTopics() {
		for i := range t.Partitions {
			c := edit(after, t, int32(i))
			if c == nil {
				continue
			}
			if r := c.record(); r != nil {
				records = append(records, r)
			}
		}
	}
	return records, nil
}

// brokerLeaves takes a broker out of all ISRs and moves its leaders. When its logs can not be trusted any more (lost), it
// leaves the ELRs too.
func (v *view) brokerLeaves(id int32, change metadata.Record, lost bool) ([]metadata.Record, error) {
	return v.afterBroker(change, func(after *view, t *metadata.Topic, index int32) *partitionChange {
		p := t.Partitions[index]
		if !slices.Contains(p.ISR, id) && p.Leader != id && (!lost || !slices.Contains(p.ELR, id)) {
			return nil
		}
		c := after.newPartitionChange(t, index)
		c.isr = without(p.ISR, []int32{id})
		if lost {
			c.lost = []int32{id}
		}
		return c
	})
}

// brokerReturns gives partitions without a leader to a broker that lives again, where it may lead.
func (v *view) brokerReturns(id int32, change metadata.Record) ([]metadata.Record, error) {
	return v.afterBroker(change, func(after *view, t *metadata.Topic, index int32) *partitionChange {
		p := t.Partitions[index]
		if p.Leader != model.NoLeader || !p.HasReplica(id) {
			return nil
		}
		return after.newPartitionChange(t, index)
	})
}

// dirsFail takes the replicas in a broker's failed log directories out of the ISRs. They stay in the ELR: an offline
// directory may come back with all it held.
func (v *view) dirsFail(id int32, change metadata.Record, failed []model.UUID) ([]metadata.Record, error) {
	return v.afterBroker(change, func(after *view, t *metadata.Topic, index int32) *partitionChange {
		p := t.Partitions[index]
		if !slices.Contains(p.ISR, id) || !slices.Contains(failed, p.Directory(id)) {
			return nil
		}
		c := after.newPartitionChange(t, index)
		c.isr = without(p.ISR, []int32{id})
		return c
	})
}

// leads reports whether a broker leads anything.
func (v *view) leads(id int32) bool {
	for t := range v.img.AllTopics() {
		for _, p := range t.Partitions {
			if p.Leader == id {
				return true
			}
		}
	}
	return false
}

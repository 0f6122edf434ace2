package groupcoord

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// DeletedTopic is a topic that is gone.
type DeletedTopic struct {
	Name string
	ID   model.UUID
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func sortOffsetKeys(ks []offsetKey) {
	slices.SortFunc(ks, func(a, b offsetKey) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
}

// expire writes tombstones for the offsets that have outlived the retention, and for the groups that have neither members
// nor offsets left.
func (s *Shard) expire(now time.Time) coordrt.Result {
	var offsets []offsetKey
	var groups []string
	next := s.o.Offsets.CheckInterval
	for _, g := range s.groups {
		if len(offsets)+len(groups) >= maxExpired {
			next = 0
			break
		}
		old := g.expired(now.UnixMilli(), s.o.Offsets.Retention.Milliseconds())
		offsets = append(offsets, old...)
		if len(old) == g.noffsets && g.state == Empty && len(g.unstable) == 0 && len(g.pending) == 0 {
			groups = append(groups, g.id)
		}
	}
	s.timers.Set(&s.expiry, now.Add(next))
	if len(offsets)+len(groups) == 0 {
		return soft()
	}
	s.o.Logger.Info("offsets and groups expire", zap.Int("offsets", len(offsets)), zap.Int("groups", len(groups)))
	s.o.Stats.expirations.Add(int64(len(offsets)))
	return bury(offsets, groups)
}

// bury deletes offsets first and groups then, each in order (G5), so that a log that ends in between shows groups without
// offsets and not the other way round.
func bury(offsets []offsetKey, groups []string) coordrt.Result {
	sortOffsetKeys(offsets)
	slices.Sort(groups)
	r := coordrt.Result{Split: true, Records: make([]coordrt.Record, 0, len(offsets)+len(groups))}
	for _, k := range offsets {
		r.Records = append(r.Records, k.tombstone())
	}
	for _, id := range groups {
		r.Records = append(r.Records, groupTombstone(id))
	}
	return r
}

// expired returns the offsets whose time is over, in no particular order.
func (g *group) expired(nowMs, retentionMs int64) []offsetKey {
	if g.noffsets == 0 {
		return nil
	}
	from := noStateTimestamp // the beginning of the retention, or of each offset's own
	switch {
	case g.protocolType == "": // simple: nobody ever joins, so each commit counts
	case g.state == Empty:
		from = g.sinceMs
	case g.state == Stable && g.protocolType == consumerType && g.subscribed != nil:
	default:
		return nil
	}
	var out []offsetKey
	g.eachOffset(func(topic string, partition int32, c *commit) {
		begin := from
		if begin == noStateTimestamp {
			begin = c.commitMs
		}
		over := nowMs-begin >= retentionMs
		if c.expireMs != noExpiry {
			over = nowMs >= c.expireMs
		}
		if over && !g.subscribes(topic) && g.unstable[topicPartition{topic, partition}] == nil {
			out = append(out, offsetKey{g.id, topic, partition})
		}
	})
	return out
}

// TopicsDeleted deletes the offsets of topics that are gone.
func (s *Shard) TopicsDeleted(topics []DeletedTopic) coordrt.Result {
	var gone []offsetKey
	for _, g := range s.groups {
		for _, t := range topics {
			for p, c := range g.offsets[t.Name] {
				if c.topicID == noTopic || c.topicID == t.ID {
					gone = append(gone, offsetKey{g.id, t.Name, p})
				}
			}
		}
	}
	for _, t := range s.txns {
		for k, c := range t {
			if slices.ContainsFunc(topics, func(d DeletedTopic) bool { return d.Name == k.topic && (c.topicID == noTopic || c.topicID == d.ID) }) {
				gone = append(gone, k)
			}
		}
	}
	if len(gone) == 0 {
		return soft()
	}
	sortOffsetKeys(gone)
	return bury(slices.Compact(gone), nil)
}

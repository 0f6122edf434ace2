package groupcoord

import "encoding/binary"

// consumerType is the protocol type of groups whose members' metadata are subscriptions.
const consumerType = "consumer"

// parseSubscription reads the topics of a consumer's metadata: {int16 version, array of string, nullable bytes}, what all
// versions begin with. ok is false when the bytes are something else.
func parseSubscription(b []byte) (topics []string, ok bool) {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return nil, false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 || int64(n)*2 > int64(len(b)) {
		return nil, false
	}
	topics = make([]string, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, false
		}
		size := int16(binary.BigEndian.Uint16(b))
		if b = b[2:]; size < 0 || int(size) > len(b) {
			return nil, false
		}
		topics = append(topics, string(b[:size]))
		b = b[size:]
	}
	if len(b) < 4 {
		return nil, false
	}
	size := int32(binary.BigEndian.Uint32(b))
	return topics, size >= -1 && int64(size) <= int64(len(b)-4)
}

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed marks bytes that are no Kafka request.
var ErrMalformed = errors.New("malformed request")

// RequestHeader is the header of a request. Body points into the frame.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is nil when the client gave none.
	ClientID *string
	// Body is what follows the header, its tags included.
	Body []byte
}

const (
	fixedHeader    = 8
	maxHeaderTags  = 10_000 // Kafka's own bound
	maxClientIDLen = 32_767
)

// ParseRequestHeader reads the header of a frame without its length. flexibleFrom tells for an API key the first version
// whose header has tags, -1 for none. Of an unknown key or version the first three fields are right all the same, so that
// the answer can be addressed.
func ParseRequestHeader(frame []byte, flexibleFrom func(key int16) int16) (RequestHeader, error) {
	if len(frame) < fixedHeader {
		return RequestHeader{}, fmt.Errorf("%w: %d bytes are fewer than a header of %d", ErrMalformed, len(frame), fixedHeader)
	}
	h := RequestHeader{
		Key: int16(binary.BigEndian.Uint16(frame)), Version: int16(binary.BigEndian.Uint16(frame[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	rest := frame[fixedHeader:]
	if len(rest) < 2 {
		return h, fmt.Errorf("%w: the header ends before the client id", ErrMalformed)
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	switch {
	case n < -1 || n > maxClientIDLen || n > len(rest):
		return h, fmt.Errorf("%w: client id of %d bytes, %d left", ErrMalformed, n, len(rest))
	case n >= 0:
		id := string(rest[:n])
		h.ClientID, rest = &id, rest[n:]
	}
	if from := flexibleFrom(h.Key); from >= 0 && h.Version >= from {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return h, err
		}
	}
	h.Body = rest
	return h, nil
}

// skipTags steps over a tag section.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxHeaderTags {
		return nil, fmt.Errorf("%w: bad number of tags", ErrMalformed)
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: bad tag", ErrMalformed)
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, fmt.Errorf("%w: bad tag size", ErrMalformed)
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// CheckFirstBytes looks at the first bytes of a connection, at least four, and says what a peer speaks that is not Kafka:
// an error for a log line. Of the length of a Kafka frame the first byte is small.
func CheckFirstBytes(b []byte) error {
	if len(b) < 4 {
		return nil
	}
	switch string(b[:4]) {
	case "GET ", "POST", "HEAD", "PUT ", "OPTI", "DELE", "PATC", "CONN", "PRI ":
		return fmt.Errorf("%w: the peer speaks HTTP; this is a Kafka listener", ErrMalformed)
	case "SSH-":
		return fmt.Errorf("%w: the peer speaks SSH; this is a Kafka listener", ErrMalformed)
	}
	if b[0] == 0x16 && b[1] == 3 {
		return fmt.Errorf("%w: the peer begins TLS; this listener is plaintext", ErrMalformed)
	}
	return nil
}

package protocol

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func flexibleFrom(key int16) int16 {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return -1
	}
	for v := range req.MaxVersion() + 1 {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return -1
}

// Every request of every version that franz-go can write is split into header and body as franz-go meant it.
func TestHeadersOfAllRequests(t *testing.T) {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))
	n := 0
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil || key == 7 { // ControlledShutdown v0 has a header of its own and is gone from Kafka
			continue
		}
		for v := range req.MaxVersion() + 1 {
			req.SetVersion(v)
			h, err := ParseRequestHeader(f.AppendRequest(nil, req, 77)[4:], flexibleFrom)
			require.NoError(t, err, "%s v%d", kmsg.NameForKey(key), v)
			require.Equal(t, []any{key, v, int32(77), "me"}, []any{h.Key, h.Version, h.CorrelationID, *h.ClientID})
			require.Equal(t, req.AppendTo(nil), append([]byte(nil), h.Body...), "%s v%d", kmsg.NameForKey(key), v)
			require.NoError(t, Guard(key, v, h.Body))
			n++
		}
	}
	require.Greater(t, n, 200)
}

func TestMalformedHeaders(t *testing.T) {
	for name, frame := range map[string][]byte{
		"empty":             {},
		"short":             {0, 18, 0, 3, 0, 0, 0},
		"no client id":      {0, 18, 0, 0, 0, 0, 0, 1, 0},
		"client id too big": {0, 18, 0, 0, 0, 0, 0, 1, 0, 9, 'x'},
		"negative":          {0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xfe},
		"no tags":           {0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff},
		"endless tags":      {0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"tag too large":     {0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 1, 0, 50, 1},
	} {
		_, err := ParseRequestHeader(frame, flexibleFrom)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	h, err := ParseRequestHeader([]byte{0, 18, 0, 9, 0, 0, 0, 5, 0xff, 0xff, 0}, flexibleFrom)
	require.NoError(t, err)
	require.Nil(t, h.ClientID)
	require.Equal(t, int32(5), h.CorrelationID)
}

func TestGuardBoundsProduce(t *testing.T) {
	many := func(version int16, topics, partitions int) []byte {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		for range topics {
			rt := kmsg.NewProduceRequestTopic()
			for range partitions {
				rt.Partitions = append(rt.Partitions, kmsg.NewProduceRequestTopicPartition())
			}
			req.Topics = append(req.Topics, rt)
		}
		return req.AppendTo(nil)
	}
	for _, v := range []int16{3, 8, 9, 12, 13} {
		require.NoError(t, Guard(0, v, many(v, 10, 1000)))
		require.ErrorIs(t, Guard(0, v, many(v, 2, 150_000)), ErrMalformed)
		good := many(v, 2, 2)
		for cut := range good {
			err := Guard(0, v, good[:cut])
			req := kmsg.NewPtrProduceRequest()
			req.Version = v
			if req.ReadFrom(good[:cut]) == nil {
				require.NoError(t, err)
			}
		}
	}
	require.ErrorIs(t, Guard(3, 1, make([]byte, MaxControlFrame+1)), ErrMalformed)
}

func TestFirstBytes(t *testing.T) {
	require.ErrorContains(t, CheckFirstBytes([]byte("GET / HTTP/1.1")), "HTTP")
	require.ErrorContains(t, CheckFirstBytes([]byte{0x16, 3, 1, 2, 0}), "TLS")
	require.ErrorContains(t, CheckFirstBytes([]byte("SSH-2.0")), "SSH")
	require.NoError(t, CheckFirstBytes([]byte{0, 0, 1, 2}))
	require.NoError(t, CheckFirstBytes([]byte{0}))
}

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int16
		text string
	}{
		{nil, 0, ""},
		{kerr.InvalidRecord, 87, kerr.InvalidRecord.Error()},
		{fmt.Errorf("a-0 at 5: %w", kerr.OffsetOutOfRange), 1, "a-0 at 5"},
		{fmt.Errorf("a-0: %w: %w", kerr.KafkaStorageError, errors.New("disk")), 56, "a-0: " + kerr.KafkaStorageError.Error() + ": disk"},
		{context.DeadlineExceeded, 7, context.DeadlineExceeded.Error()},
		{fmt.Errorf("gone: %w", context.Canceled), 7, "gone: context canceled"},
		{errors.New("boom"), -1, "boom"},
	} {
		require.Equal(t, c.code, CodeOf(c.err))
		if c.err == nil {
			require.Nil(t, MessageOf(nil))
			continue
		}
		require.Equal(t, c.text, *MessageOf(c.err))
	}
}

func FuzzHeaderAndGuard(f *testing.F) {
	fm := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))
	for _, req := range []kmsg.Request{kmsg.NewPtrProduceRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrApiVersionsRequest()} {
		req.SetVersion(req.MaxVersion())
		f.Add(fm.AppendRequest(nil, req, 1)[4:])
	}
	f.Fuzz(func(_ *testing.T, frame []byte) {
		_ = CheckFirstBytes(frame)
		if h, err := ParseRequestHeader(frame, flexibleFrom); err == nil {
			_ = Guard(h.Key, h.Version, h.Body)
		}
	})
}

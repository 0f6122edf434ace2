package memnet

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A real client in virtual time: it connects, waits out a cut, and gives up on a dead host by its own timers.
func TestFranzGoRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.SetDefaultDelay(5 * time.Millisecond)
		l, err := n.Host("broker").Listen("tcp", "broker:9092")
		require.NoError(t, err)
		served := make(chan struct{})
		go func() { defer close(served); serve(l) }()

		client, err := kgo.NewClient(kgo.SeedBrokers("broker:9092"), kgo.Dialer(n.Host("client").Dial))
		require.NoError(t, err)
		require.NoError(t, client.Ping(t.Context()))

		n.Cut("broker", "client")
		go func() { time.Sleep(3 * time.Second); n.HealAll() }()
		require.GreaterOrEqual(t, within(func() { require.NoError(t, client.Ping(t.Context())) }), 3*time.Second)

		n.Isolate("broker")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.Error(t, client.Ping(ctx))
		client.Close()
		n.HealAll()
		require.NoError(t, l.Close())
		<-served
		require.Empty(t, n.Open())
	})
}

// serve answers ApiVersions and Metadata on every connection, one after the other of their requests.
func serve(l net.Listener) {
	done := make(chan struct{})
	conns := 0
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		conns++
		go func() {
			defer func() { _ = c.Close(); done <- struct{}{} }()
			for answer(c) == nil {
			}
		}()
	}
	for range conns {
		<-done
	}
}

func answer(c net.Conn) error {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return err
	}
	req := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(c, req); err != nil {
		return err
	}
	key, version := int16(binary.BigEndian.Uint16(req)), int16(binary.BigEndian.Uint16(req[2:]))
	out := append(make([]byte, 4), req[4:8]...)
	switch key {
	case 18:
		r := kmsg.NewPtrApiVersionsResponse()
		r.Version = min(version, 3)
		r.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 3}, {ApiKey: 3, MaxVersion: 1}}
		out = r.AppendTo(out)
	default:
		r := kmsg.NewPtrMetadataResponse()
		r.Version = version
		r.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "broker", Port: 9092}}
		out = r.AppendTo(out)
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := c.Write(out)
	return err
}

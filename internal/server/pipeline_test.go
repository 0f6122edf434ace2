package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/server/api"
)

func TestAnswersCarryTheRightHeader(t *testing.T) {
	f := start(t, nil)
	c := f.pipes.dial(t, "10.0.0.1")
	old, flexible, versions := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrApiVersionsRequest()
	old.Version, flexible.Version, versions.Version = 1, 9, 3
	for corr, req := range []kmsg.Request{old, flexible, versions} {
		send(t, c, int32(corr)+7, req)
		got, rest := readAnswer(t, c)
		require.Equal(t, int32(corr)+7, got)
		resp := req.ResponseKind()
		if req == flexible {
			require.Zero(t, rest[0], "tags of the header")
			rest = rest[1:]
		}
		require.NoError(t, resp.ReadFrom(rest))
		require.Equal(t, resp.AppendTo(nil), rest, "%T", resp)
	}
}

func TestUnknownVersionOfApiVersionsIsAnsweredInFormatZero(t *testing.T) {
	f := start(t, nil)
	c := f.pipes.dial(t, "10.0.0.1")
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	req := encode(99, versions)
	req[7] = 99 // version
	_, err := c.Write(req)
	require.NoError(t, err)
	corr, rest := readAnswer(t, c)
	require.Equal(t, int32(99), corr)
	require.Equal(t, []byte{0, 35, 0, 0, 0, 0}, rest)
	send(t, c, 100, metadataRequest())
	corr, _ = readAnswer(t, c)
	require.Equal(t, int32(100), corr, "the connection goes on")
}

// held keeps the replies of Produce requests until the test gives them.
type held struct {
	mu      sync.Mutex
	replies []func(api.Reply)
	other   []string
}

func (h *held) serve(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.Overlaps {
		h.replies = append(h.replies, reply)
		return
	}
	h.other = append(h.other, a.Name())
	echo(ctx, a, r, reply)
}

func (h *held) counts() (produces, others int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.replies), len(h.other)
}

func (h *held) release(i int) {
	h.mu.Lock()
	reply := h.replies[i]
	h.mu.Unlock()
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	reply(api.Reply{Message: resp})
}

// Produce does not hold up the next request, but its answer keeps its place (S1, S2).
func TestPipelinedProducesAreHandledAtOnceAndAnsweredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		var got []int32
		var mu sync.Mutex
		go func() {
			for range 5 {
				corr, _ := readAnswer(t, c)
				mu.Lock()
				got = append(got, corr)
				mu.Unlock()
			}
		}()
		answered := func() []int32 {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return append([]int32(nil), got...)
		}
		p := produceRequest([]byte("x"))
		send(t, c, 1, p, p, p, metadataRequest(), metadataRequest())
		synctest.Wait()
		produces, others := h.counts()
		require.Equal(t, 3, produces, "all are handled although none is answered")
		require.Equal(t, 1, others, "the second Metadata waits for the answer of the first")
		h.release(2)
		require.Empty(t, answered())
		h.release(1)
		require.Empty(t, answered())
		h.release(0)
		require.Equal(t, []int32{1, 2, 3, 4, 5}, answered())
	})
}

// A handler that blocks for long must not hold up answers to earlier requests.
func TestEarlierAnswersLeaveWhileAHandlerBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		join := make(chan struct{})
		f.service.serve = func(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
			if a.Key == 11 {
				<-join
			}
			h.serve(ctx, a, r, reply)
		}
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, produceRequest(nil), kmsg.NewPtrJoinGroupRequest())
		synctest.Wait()
		h.release(0)
		corr, _ := readAnswer(t, c)
		require.Equal(t, int32(1), corr)
		close(join)
		corr, _ = readAnswer(t, c)
		require.Equal(t, int32(2), corr)
	})
}

func TestPendingRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		go func() {
			for i := range pendingRequests + 10 {
				if _, err := c.Write(encode(int32(i), produceRequest(nil))); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		n, _ := h.counts()
		require.Equal(t, pendingRequests, n)
		go func() {
			for i := range pendingRequests + 10 {
				corr, _ := readAnswer(t, c)
				require.Equal(t, int32(i), corr)
			}
		}()
		for i := range pendingRequests + 10 {
			h.release(i)
			synctest.Wait()
		}
	})
}

func TestPendingBytesAreBoundedButOneRequestAlwaysFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		big := produceRequest(make([]byte, pendingBytes+1))
		go func() {
			for i := range 2 {
				if _, err := c.Write(encode(int32(i), big)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		n, _ := h.counts()
		require.Equal(t, 1, n)
		_, bytes := f.inFlight(t)
		require.Less(t, bytes, float64(pendingBytes+1000))
		go h.release(0)
		_, _ = readAnswer(t, c)
		synctest.Wait()
		n, _ = h.counts()
		require.Equal(t, 2, n)
		go h.release(1)
		_, _ = readAnswer(t, c)
	})
}

func TestQueuedRequestBytesBoundAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *config.Config) { c.Sockets.QueuedRequestBytes = 1000 })
		var h held
		f.service.serve = h.serve
		a, b := f.pipes.dial(t, "10.0.0.1"), f.pipes.dial(t, "10.0.0.2")
		for _, c := range []net.Conn{a, b} {
			go func() { _, _ = c.Write(encode(1, produceRequest(make([]byte, 2000)))) }()
		}
		synctest.Wait()
		n, _ := h.counts()
		require.Equal(t, 1, n)
		var answers sync.WaitGroup
		for _, c := range []net.Conn{a, b} {
			answers.Go(func() { readAnswer(t, c) })
		}
		h.release(0)
		synctest.Wait()
		n, _ = h.counts()
		require.Equal(t, 2, n)
		h.release(1)
		answers.Wait()
	})
}

// The frame of a Produce request is used again only after it was answered (S4).
func TestProduceFramesAreReusedAfterTheAnswerOnly(t *testing.T) {
	f := start(t, nil)
	type kept struct {
		records []byte
		reply   func(api.Reply)
	}
	requests := make(chan kept, 100)
	f.service.serve = func(_ context.Context, _ *api.API, r *api.Request, reply func(api.Reply)) {
		requests <- kept{r.Body.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records, reply}
	}
	c := f.pipes.dial(t, "10.0.0.1")
	go func() {
		for i := range 60 {
			records := bytes.Repeat([]byte{byte(i)}, 20_000)
			if _, err := c.Write(encode(int32(i), produceRequest(records))); err != nil {
				return
			}
		}
	}()
	go func() {
		var batch []kept
		for i := range 60 {
			batch = append(batch, <-requests)
			if len(batch) < 6 {
				continue
			}
			for k, q := range batch {
				want := bytes.Repeat([]byte{byte(i - 5 + k)}, 20_000)
				if !bytes.Equal(want, q.records) {
					panic("a frame was reused before its answer")
				}
				resp := kmsg.NewPtrProduceResponse()
				resp.Version = 9
				q.reply(api.Reply{Message: resp})
			}
			batch = nil
		}
	}()
	for i := range 60 {
		corr, _ := readAnswer(t, c)
		require.Equal(t, int32(i), corr)
	}
}

func TestRequestWithoutAnswerSendsNothing(t *testing.T) {
	f := start(t, nil)
	f.service.serve = func(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
		if a.Key == 0 {
			reply(api.Reply{})
			return
		}
		echo(ctx, a, r, reply)
	}
	c := f.pipes.dial(t, "10.0.0.1")
	send(t, c, 1, produceRequest(nil), produceRequest(nil), metadataRequest())
	corr, _ := readAnswer(t, c)
	require.Equal(t, int32(3), corr)
}

func TestFailedRequestWithoutAnswerClosesAfterEarlierAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var replies []func(api.Reply)
		f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, reply func(api.Reply)) {
			replies = append(replies, reply)
		}
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, produceRequest(nil), produceRequest(nil))
		synctest.Wait()
		replies[1](api.Reply{Close: true})
		synctest.Wait()
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		replies[0](api.Reply{Message: resp})
		corr, _ := readAnswer(t, c)
		require.Equal(t, int32(1), corr)
		requireClosed(t, c)
	})
}

// A peer that stops sending still gets its answers; whoever waits for data is told to stop waiting.
func TestPeerThatStopsSendingGetsItsAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := start(t, nil, Listener{Name: "TCP", Socket: l})
	f.service.serve = func(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
		context.AfterFunc(ctx, func() { echo(ctx, a, r, reply) })
	}
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	send(t, c, 5, metadataRequest())
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	corr, _ := readAnswer(t, c)
	require.Equal(t, int32(5), corr)
	requireClosed(t, c)
}

func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c, idle := f.pipes.dial(t, "10.0.0.1"), f.pipes.dial(t, "10.0.0.2")
		send(t, c, 1, produceRequest(nil))
		synctest.Wait()
		done := make(chan error)
		go func() { done <- f.Shutdown(t.Context()) }()
		synctest.Wait()
		requireClosed(t, idle)
		select {
		case <-done:
			t.Fatal("Shutdown did not wait for the request")
		default:
		}
		go h.release(0)
		corr, _ := readAnswer(t, c)
		require.Equal(t, int32(1), corr)
		requireClosed(t, c)
		require.NoError(t, <-done)
	})
}

func TestShutdownGivesUpWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, produceRequest(nil))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, f.Shutdown(ctx), context.DeadlineExceeded)
		requireClosed(t, c)
		h.release(0) // late: nobody is there any more
	})
}

func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, produceRequest(nil))
		begun := time.Now()
		synctest.Wait()
		require.NoError(t, f.Shutdown(t.Context()))
		require.Equal(t, drainTimeout, time.Since(begun))
		requireClosed(t, c)
	})
}

func TestManyAnswersAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		var h held
		f.service.serve = h.serve
		c := f.pipes.dial(t, "10.0.0.1")
		for i := range 100 {
			send(t, c, int32(i), produceRequest(nil))
		}
		synctest.Wait()
		for i := 99; i >= 0; i-- {
			h.release(i)
		}
		synctest.Wait()
		b := make([]byte, 1<<20)
		n, err := c.Read(b) // one write of the server is at most one read of a pipe
		require.NoError(t, err)
		r := bytes.NewReader(b[:n])
		for i := range 100 {
			corr, _ := readAnswer(t, r)
			require.Equal(t, int32(i), corr, fmt.Sprint(n))
		}
	})
}

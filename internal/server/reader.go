package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/server/api"
	"github.com/kbroker/kbroker/protocol"
)

// errRefused is in the chain of the error for a request that gets no answer.
var errRefused = errors.New("request refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errRefused, fmt.Errorf(format, args...))
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// readLoop handles request after request until the stream ends or breaks. It returns io.EOF when the peer has stopped
// sending, errDraining when the server is stopping.
func (c *conn) readLoop() error {
	for {
		if c.draining.Load() {
			return errDraining
		}
		err := c.readOne()
		if err == nil {
			continue
		}
		if c.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			return errDraining
		}
		return err
	}
}

func (c *conn) readOne() error {
	head, err := c.frames.head(c.s.cfg().Sockets.RequestMaxBytes)
	if err != nil {
		return c.explain(err)
	}
	if err := c.await(func() bool { return c.q.hasRoom(head.size) }); err != nil {
		return err
	}
	if err := c.s.budget.take(c.alive, head.size); err != nil {
		return err
	}
	f, err := c.frames.body(head)
	if err != nil {
		c.s.budget.give(head.size)
		return err
	}
	p, err := c.decode(&f)
	if err == nil {
		err = c.await(c.q.isTurn)
	}
	if err != nil {
		c.giveBack(&f, head.size)
		return err
	}
	c.handle(p)
	return nil
}

// explain marks errors about the form of frames as the peer's fault.
func (c *conn) explain(err error) error {
	if errors.Is(err, errNotKafka) || isStreamEnd(err) {
		return err
	}
	return refused("%w", err)
}

// await waits until a condition on the queue holds.
func (c *conn) await(ok func() bool) error {
	for !ok() {
		select {
		case <-c.q.changed:
		case <-c.alive.Done():
			return errClosed
		}
	}
	return nil
}

// decode makes a pending request of a frame. The errors are reasons to close the connection, as Kafka does.
func (c *conn) decode(f *frame) (p *pending, err error) {
	defer func() {
		if r := recover(); r != nil { // kmsg is not ours: what it thinks of hostile bytes must not end the process
			c.s.log.Error("a request could not be decoded because the decoder failed", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			p, err = nil, refused("the decoder failed: %v", r)
		}
	}()
	table := c.s.o.Service.Table()
	h, err := protocol.ParseRequestHeader(f.bytes, table.FlexibleFrom)
	if err != nil {
		return nil, refused("header: %w", err)
	}
	p = &pending{frame: *f, size: len(f.bytes), corr: h.CorrelationID, received: time.Now()}
	a := table.Find(h.Key)
	if a == nil {
		return nil, refused("API key %d (%s) is not served", h.Key, kmsg.NameForKey(h.Key))
	}
	if !a.Serves(h.Version) {
		reply, ok := c.s.o.Service.RefuseVersion(h.Key)
		if !ok {
			return nil, refused("%s version %d is not served, only %d to %d are", a.Name(), h.Version, a.Lowest(), a.Max)
		}
		p.reply = reply
		return p, nil
	}
	if err := protocol.Guard(h.Key, h.Version, h.Body); err != nil {
		return nil, refused("%s version %d: %w", a.Name(), h.Version, err)
	}
	body := kmsg.RequestForKey(h.Key)
	body.SetVersion(h.Version)
	if err := body.ReadFrom(h.Body); err != nil {
		return nil, refused("%s version %d: %w", a.Name(), h.Version, err)
	}
	p.api = a
	p.request = api.Request{Peer: c.peer, ClientID: h.ClientID, Version: h.Version, Body: body}
	// The response header of ApiVersions never has tags: whoever reads it does not know yet what we speak.
	p.tagged = body.IsFlexible() && h.Key != int16(kmsg.ApiVersions)
	return p, nil
}

// handle serves a request in its turn, and sends its answer if it is there when the handler returns.
func (c *conn) handle(p *pending) {
	if !c.q.push(p) {
		c.giveBack(&p.frame, p.size)
		return
	}
	c.s.metrics.begun(p)
	if p.api == nil {
		c.answer(p, p.reply)
	} else {
		ctx := c.waiting
		if p.overlaps() {
			ctx = c.alive
		}
		c.s.o.Service.Serve(ctx, p.api, &p.request, func(r api.Reply) { c.answer(p, r) })
	}
	if c.q.handled() {
		c.send()
	}
}

// giveBack ends the use of a frame's memory.
func (c *conn) giveBack(f *frame, size int) {
	f.release()
	c.s.budget.give(size)
}

// answer takes the answer to a request from whichever goroutine has it. It does not block.
func (c *conn) answer(p *pending, r api.Reply) {
	c.giveBack(&p.frame, p.size)
	if !c.q.answer(p, r) && r.Fetch != nil {
		r.Fetch.Release()
	}
}

// isStreamEnd reports whether an error comes from the socket rather than from what it delivered.
func isStreamEnd(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.As(err, &netErr)
}

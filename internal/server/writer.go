package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/kbroker/kbroker/internal/server/api"
)

const (
	// coalescedBytes is how much of the answers that are ready goes out in one write.
	coalescedBytes = 64 << 10
	// copiedBytes is how many record bytes of a Fetch answer are read into its head rather than sent from the file: for
	// so little, one system call less weighs more than the copy.
	copiedBytes = 8 << 10
)

// errClosed ends whoever waits for a connection that was closed.
var errClosed = errors.New("connection closed")

// errUnsaid closes a connection because that is the only way to tell the client of an error.
var errUnsaid = errors.New("a request without an answer has failed")

// writeLoop sends answers that came from elsewhere than the reader, until the connection is closed.
func (c *conn) writeLoop() {
	for {
		select {
		case <-c.q.ready:
			if c.q.token() {
				c.send()
			}
		case <-c.alive.Done():
			return
		}
	}
}

// outBuffers holds the buffers that answers are encoded into, so that an idle connection has none.
var outBuffers = sync.Pool{New: func() any { return new(outBuffer) }}

type outBuffer struct {
	bytes []byte
	done  []*pending // whose answers are in bytes
}

// send writes every answer that is ready, in order. The caller has the write token, and has lost it afterwards.
func (c *conn) send() {
	out := outBuffers.Get().(*outBuffer)
	defer func() {
		if cap(out.bytes) <= 2*coalescedBytes {
			out.bytes, out.done = out.bytes[:0], out.done[:0]
			outBuffers.Put(out)
		}
	}()
	for {
		if p := c.q.pop(); p != nil {
			out.done = append(out.done, p)
			if err := c.encode(out, p); err != nil {
				c.finish(out, err)
				return
			}
			if len(out.bytes) < coalescedBytes {
				continue
			}
		}
		if len(out.done) > 0 {
			if err := c.flush(out); err != nil {
				c.finish(out, err)
				return
			}
			continue
		}
		if c.q.yield() {
			return
		}
	}
}

// finish ends a connection that cannot be written to, or must not be. Answers that were not written are dropped.
func (c *conn) finish(out *outBuffer, err error) {
	if errors.Is(err, errUnsaid) && c.flush(out) == nil {
		c.close(err)
		return
	}
	for _, p := range out.done {
		p.discard()
		c.s.metrics.ended(p)
	}
	c.q.sent(out.done)
	clear(out.done)
	out.done = out.done[:0]
	c.close(err)
}

// flush writes the encoded answers and takes their requests off the queue.
func (c *conn) flush(out *outBuffer) error {
	if len(out.bytes) > 0 {
		if err := c.out.Write(out.bytes, false); err != nil {
			return err
		}
		c.moved(len(out.bytes))
		out.bytes = out.bytes[:0]
	}
	now := time.Now()
	for _, p := range out.done {
		c.s.metrics.sent(p, now)
		c.s.metrics.ended(p)
	}
	c.q.sent(out.done)
	clear(out.done)
	out.done = out.done[:0]
	return nil
}

func (c *conn) moved(n int) {
	c.touch()
	c.s.metrics.transmitted.Add(float64(n))
}

// encode appends an answer, or sends it at once when its records come from files.
func (c *conn) encode(out *outBuffer, p *pending) error {
	r := &p.reply
	if r.Close {
		return errUnsaid
	}
	if r.Message == nil && r.Fetch == nil {
		return nil
	}
	start := len(out.bytes)
	out.bytes = binary.BigEndian.AppendUint32(append(out.bytes, 0, 0, 0, 0), uint32(p.corr))
	if p.tagged {
		out.bytes = append(out.bytes, 0)
	}
	if r.Fetch != nil {
		return c.encodeFetch(out, r, start)
	}
	out.bytes = r.Message.AppendTo(out.bytes)
	r.Message = nil
	return setSize(out.bytes[start:], 0)
}

// setSize writes the length in front of an answer, of which more bytes are to follow.
func setSize(answer []byte, more int) error {
	n := len(answer) - 4 + more
	if n > math.MaxInt32 {
		return fmt.Errorf("an answer of %d bytes is too large", n)
	}
	binary.BigEndian.PutUint32(answer, uint32(n))
	return nil
}

// encodeFetch appends a Fetch answer. Its records are read into the buffer when they are few; otherwise everything up to
// the last record is sent.
func (c *conn) encodeFetch(out *outBuffer, r *api.Reply, start int) error {
	head, cuts := r.Fetch.AppendTo(out.bytes)
	records := r.Fetch.RecordBytes()
	if err := setSize(head[start:], records); err != nil {
		return err
	}
	if len(cuts) == 0 {
		out.bytes = head
		r.Fetch.Release()
		r.Fetch = nil
		return nil
	}
	if records <= copiedBytes {
		return c.weave(out, r, head, cuts, records)
	}
	at := 0
	for _, cut := range cuts {
		if err := c.out.Write(head[at:cut.At], true); err != nil {
			return err
		}
		c.moved(cut.At - at)
		at = cut.At
		if err := c.sendRecords(cut); err != nil {
			return err
		}
	}
	r.Fetch.Release()
	r.Fetch = nil
	out.bytes = append(head[:0], head[at:]...)
	return nil
}

// weave puts the records into their places in the encoded answer, from the last one on, so that every byte moves once.
func (c *conn) weave(out *outBuffer, r *api.Reply, head []byte, cuts []api.Cut, records int) error {
	end := len(head)
	head = append(head, make([]byte, records)...)
	to := len(head)
	for i := len(cuts) - 1; i >= 0; i-- {
		cut := cuts[i]
		to -= copy(head[to-(end-cut.At):], head[cut.At:end])
		end = cut.At
		n := cut.Records.Len()
		to -= n
		if err := readRecords(head[to:to+n], cut); err != nil {
			return err
		}
	}
	out.bytes = head
	r.Fetch.Release()
	r.Fetch = nil
	return nil
}

// readRecords fills b with the records of a cut.
func readRecords(b []byte, cut api.Cut) error {
	file, pos := cut.Records.File()
	n, err := file.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("records at %d of %s: %w", pos, file.Name(), err)
}

// sendRecords sends the records of a cut from their file.
func (c *conn) sendRecords(cut api.Cut) error {
	file, pos := cut.Records.File()
	n := int64(cut.Records.Len())
	var err error
	if f := file.OSFile(); f != nil {
		err = c.out.SendFile(f, pos, n)
	} else {
		err = c.out.Copy(file, pos, n)
	}
	if err != nil {
		return fmt.Errorf("records at %d of %s: %w", pos, file.Name(), err)
	}
	c.moved(int(n))
	return nil
}

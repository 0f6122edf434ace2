package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClientID is what every request's header says.
const ClientID = "compat"

// maxFrame bounds an answer: nothing that a test asks for is larger.
const maxFrame = 64 << 20

// replyLimit bounds the wait for an answer when the caller's context does not.
const replyLimit = 30 * time.Second

// Conn is a connection to a broker. It is not safe for concurrent use.
type Conn struct {
	conn        net.Conn
	r           *bufio.Reader
	correlation int32
	formatter   *kmsg.RequestFormatter
}

// Dial connects.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: conn, r: bufio.NewReader(conn), formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(ClientID))}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Send writes a request with the version that it carries and returns its correlation id.
func (c *Conn) Send(req kmsg.Request) (int32, error) {
	c.correlation++
	frame := c.formatter.AppendRequest(nil, req, c.correlation)
	return c.correlation, c.SendRaw(frame)
}

// SendRaw writes bytes as they are.
func (c *Conn) SendRaw(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(replyLimit)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// Receive reads one answer frame: correlation id and what follows it.
func (c *Conn) Receive(ctx context.Context) (int32, []byte, error) {
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(replyLimit); !ok || limit.Before(deadline) {
		deadline = limit
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxFrame {
		return 0, nil, fmt.Errorf("an answer of %d bytes", size)
	}
	body := make([]byte, size-4)
	_, err := io.ReadFull(c.r, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// ErrClosed says that the broker closed the connection instead of answering.
var ErrClosed = errors.New("the broker closed the connection")

// Request sends a request and returns its decoded answer.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	want, err := c.Send(req)
	if err != nil {
		return nil, err
	}
	got, body, err := c.Receive(ctx)
	if err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("answer %d to request %d", got, want)
	}
	return Decode(req.Key(), req.GetVersion(), body)
}

// Decode reads an answer's body, header tags included. Bytes left over are an error.
func Decode(key, version int16, body []byte) (kmsg.Response, error) {
	resp := kmsg.ResponseForKey(key)
	if resp == nil {
		return nil, fmt.Errorf("no answer is known for key %d", key)
	}
	resp.SetVersion(version)
	if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
		rest, err := skipTags(body)
		if err != nil {
			return nil, fmt.Errorf("%s v%d: %w in % x", kmsg.NameForKey(key), version, err, body)
		}
		body = rest
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: %w in % x", kmsg.NameForKey(key), version, err, body)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("%s v%d: %d bytes, of which %d make the answer: % x", kmsg.NameForKey(key), version, len(body), len(again), body)
	}
	return resp, nil
}

var errTags = errors.New("header tags are cut short")

// skipTags passes the tagged fields that end a flexible header.
func skipTags(b []byte) ([]byte, error) {
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		return v, n > 0
	}
	count, ok := next()
	for ; ok && count > 0; count-- {
		if _, ok = next(); !ok {
			break
		}
		var size uint64
		if size, ok = next(); ok && size <= uint64(len(b)) {
			b = b[size:]
		} else {
			ok = false
		}
	}
	if !ok {
		return nil, errTags
	}
	return b, nil
}

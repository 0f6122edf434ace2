package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connectionNotes tells the user once when a broker cannot be reached any more, and once when it can be again: the client
// itself goes on trying in silence. Its methods are called from the client's goroutines.
type connectionNotes struct {
	w  io.Writer
	mu struct {
		sync.Mutex
		on   bool
		down map[string]bool // by host:port
	}
}

var _ kgo.HookBrokerConnect = (*connectionNotes)(nil)

// begin turns the notes on, once the command has reached the cluster: a failure before that is the command's own error.
func (n *connectionNotes) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.on, n.mu.down = true, map[string]bool{}
}

// OnBrokerConnect is called after every try to connect.
func (n *connectionNotes) OnBrokerConnect(b kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	addr := net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
	switch {
	case !n.mu.on || (err != nil) == n.mu.down[addr]:
	case err != nil:
		n.mu.down[addr] = true
		_, _ = fmt.Fprintf(n.w, "kbroker: %s does not answer (%v); trying again\n", addr, err)
	default:
		delete(n.mu.down, addr)
		_, _ = fmt.Fprintf(n.w, "kbroker: %s answers again\n", addr)
	}
}

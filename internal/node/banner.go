package node

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// banner tells the person who started the node what runs where.
func (n *Node) banner(took time.Duration) {
	var listeners, dirs []string
	for _, l := range n.o.Config.Node.Advertised {
		listeners = append(listeners, l.String())
	}
	for _, d := range n.dirs {
		dirs = append(dirs, d.Path())
	}
	connect := "localhost:9092"
	if adv := n.o.Config.Node.Advertised; len(adv) > 0 {
		connect = adv[0].Address()
	}
	console := "off"
	if n.console != nil {
		console = "http://" + n.o.Config.HTTP.Listener
	}
	if n.o.Banner == nil {
		return
	}
	_, err := fmt.Fprintf(n.o.Banner, `kbroker %s, node %d, cluster %s, ready after %s
  listeners  %s
  data       %s
  console    %s
  try        kbroker topic create hello --bootstrap %s
`, n.o.Version, n.o.Config.Node.ID, n.clusterID, took.Round(time.Millisecond), strings.Join(listeners, " "), strings.Join(dirs, " "), console, connect)
	if err != nil {
		n.log.Debug("banner not written", zap.Error(err))
	}
}

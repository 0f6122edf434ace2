package node

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
)

// banner tells the person who started the node what runs where. It comes before the first log line of the start.
func (n *Node) banner() error {
	if n.o.Banner == nil {
		return nil
	}
	var listeners, dirs []string
	for _, l := range n.advertised() {
		listeners = append(listeners, l.String())
	}
	for _, d := range n.dirs {
		dirs = append(dirs, d.Path())
	}
	connect := ""
	if adv := n.advertised(); len(adv) > 0 && adv[0].Address() != "localhost:9092" {
		connect = " --bootstrap " + adv[0].Address()
	}
	console := "off"
	if n.console != nil {
		console = "http://" + n.o.Config.HTTP.Listener
	}
	_, err := fmt.Fprintf(n.o.Banner, `kbroker %s, node %d, cluster %s
  listeners  %s
  data       %s
  console    %s
  try        kbroker topic create hello%s
`, n.o.Version, n.o.Config.Node.ID, n.clusterID, strings.Join(listeners, " "), strings.Join(dirs, " "), console, connect)
	if err != nil {
		n.log.Debug("banner not written", zap.Error(err)) // standard output may be closed; that is no reason not to serve
	}
	return nil
}

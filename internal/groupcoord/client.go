package groupcoord

import "strings"

// Client says who sent a request, as far as groups record it.
type Client struct {
	// ID is the client id of the request header, empty when there was none.
	ID string
	// Host is the client's address without port. Groups show it with Kafka's leading slash, with or without which it may
	// be given here.
	Host string
}

func (c Client) shownHost() string {
	if strings.HasPrefix(c.Host, "/") {
		return c.Host
	}
	return "/" + c.Host
}

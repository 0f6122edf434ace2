package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslHandshake (key 17) begins authentication. It is out of place once a connection serves requests, and on a listener
// without SASL from the start; that is all that reaches this handler.
func saslHandshakeAPI() API {
	return API{
		Key: 17, Min: 0, Max: 1, Since: []string{"v1 authentication by SaslAuthenticate (KIP-152)"},
		Deviations: []string{"No listener authenticates: the answer is ILLEGAL_SASL_STATE, as that of Apache Kafka on a PLAINTEXT listener."},
		serve:      answer((*Service).saslHandshake),
	}
}

func (s *Service) saslHandshake(context.Context, *Request, *kmsg.SASLHandshakeRequest) *kmsg.SASLHandshakeResponse {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode, resp.SupportedMechanisms = kerr.IllegalSaslState.Code, []string{}
	return resp
}

package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslAuthenticate (key 36) carries the tokens of a SASL mechanism; see SaslHandshake.
func saslAuthenticateAPI() API {
	return API{
		Key: 36, Min: 0, Max: 2, Since: []string{"v1 lifetime of the session (KIP-368)"},
		Deviations: []string{"No listener authenticates: the answer is ILLEGAL_SASL_STATE, as that of Apache Kafka on a PLAINTEXT listener."},
		serve:      answer((*Service).saslAuthenticate),
	}
}

func (s *Service) saslAuthenticate(context.Context, *Request, *kmsg.SASLAuthenticateRequest) *kmsg.SASLAuthenticateResponse {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.ErrorCode, resp.SASLAuthBytes = kerr.IllegalSaslState.Code, []byte{}
	resp.ErrorMessage = text("SaslAuthenticate request received after successful authentication")
	return resp
}

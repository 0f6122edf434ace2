package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// forward sends a request to the controller on behalf of the requester. An error means that there is no answer.
func forward[R kmsg.Response](ctx context.Context, s *Service, r *Request, q kmsg.Request) (R, error) {
	resp, err := s.Controller.Forward(ctx, r.Caller(), q)
	if err != nil {
		var none R
		return none, fmt.Errorf("the controller did not answer: %w", err)
	}
	typed, ok := resp.(R)
	if !ok {
		return typed, fmt.Errorf("the controller answered %T to %T: %w", resp, q, kerr.UnknownServerError)
	}
	return typed, nil
}

// text returns a pointer to a message for the error fields of answers.
func text(format string, args ...any) *string {
	s := fmt.Sprintf(format, args...)
	return &s
}

// saying returns an error with a text that clients and their users know from Apache Kafka.
func saying(code *kerr.Error, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), code)
}

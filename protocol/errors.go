package protocol

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CodeOf returns Kafka's error code for an error: 0 for nil, that of the first *kerr.Error in its chain,
// REQUEST_TIMED_OUT for an expired or cancelled context, and UNKNOWN_SERVER_ERROR for anything else.
func CodeOf(err error) int16 {
	var ke *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ke):
		return ke.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return kerr.RequestTimedOut.Code
	default:
		return kerr.UnknownServerError.Code
	}
}

// MessageOf returns the text for an answer's error message, nil for nil. It is the text of the error without that of the code
// it wraps, which the client knows.
func MessageOf(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		if suffix := ": " + ke.Error(); len(text) > len(suffix) && text[len(text)-len(suffix):] == suffix {
			text = text[:len(text)-len(suffix)]
		}
	}
	return &text
}

package controller

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// refusal is an error with a code and a text for the client, as Kafka would put it.
type refusal struct {
	code *kerr.Error
	text string
}

func refuse(code *kerr.Error, format string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

// Error returns the text for the client.
func (r *refusal) Error() string { return r.text }

// Unwrap shows the code to errors.As.
func (r *refusal) Unwrap() error { return r.code }

// answerOf returns the code and the message of an answer for err. A bare *kerr.Error answers with Kafka's usual text for it.
func answerOf(err error) (code int16, message *string) {
	if err == nil {
		return 0, nil
	}
	var bare *kerr.Error
	if !errors.As(err, &bare) {
		bare = kerr.UnknownServerError
	}
	text := err.Error()
	if bare == err { //nolint:errorlint // the question is whether it stands alone
		text = bare.Description
	}
	return bare.Code, &text
}

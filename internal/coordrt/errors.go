package coordrt

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
)

func errNotCoordinator(tp model.TopicPartition) error {
	return fmt.Errorf("%s is not led by this broker: %w", tp, kerr.NotCoordinator)
}

func errLoading(tp model.TopicPartition) error {
	return fmt.Errorf("%s is being loaded: %w", tp, kerr.CoordinatorLoadInProgress)
}

func errBusy(tp model.TopicPartition, what string) error {
	return fmt.Errorf("%s: too many %s: %w", tp, what, kerr.CoordinatorNotAvailable)
}

func errClosed(tp model.TopicPartition) error {
	return fmt.Errorf("%s: the broker is stopping: %w", tp, kerr.CoordinatorNotAvailable)
}

func errCommitTimeout(tp model.TopicPartition, upTo int64) error {
	return fmt.Errorf("%s: records below offset %d were not committed in time: %w", tp, upTo, kerr.RequestTimedOut)
}

// ErrorOf is the error that a coordinator's client gets: Kafka's coordinators translate what the log says, because a
// client must not mistake trouble of the internal topic for trouble of its own topics. The error chain may hold a
// *kerr.Error; anything else is an UNKNOWN_SERVER_ERROR. A nil error is nil.
func ErrorOf(err error) *kerr.Error {
	if err == nil {
		return nil
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return kerr.UnknownServerError
	}
	switch ke {
	case kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut:
		return kerr.CoordinatorNotAvailable
	case kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.KafkaStorageError:
		return kerr.NotCoordinator
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidFetchSize:
		return kerr.UnknownServerError
	case kerr.NetworkException:
		return kerr.CoordinatorLoadInProgress
	}
	return ke
}

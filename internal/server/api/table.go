package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// all lists every API that is served, by key.
func all() []API {
	return []API{
		produceAPI(),
		fetchAPI(),
		listOffsetsAPI(),
		metadataAPI(),
		offsetCommitAPI(),
		offsetFetchAPI(),
		findCoordinatorAPI(),
		joinGroupAPI(),
		heartbeatAPI(),
		leaveGroupAPI(),
		syncGroupAPI(),
		describeGroupsAPI(),
		listGroupsAPI(),
		saslHandshakeAPI(),
		apiVersionsAPI(),
		createTopicsAPI(),
		deleteTopicsAPI(),
		deleteRecordsAPI(),
		initProducerIDAPI(),
		offsetForLeaderEpochAPI(),
		writeTxnMarkersAPI(),
		describeACLsAPI(),
		describeConfigsAPI(),
		alterConfigsAPI(),
		describeLogDirsAPI(),
		saslAuthenticateAPI(),
		createPartitionsAPI(),
		deleteGroupsAPI(),
		incrementalAlterConfigsAPI(),
		offsetDeleteAPI(),
		describeClientQuotasAPI(),
		describeQuorumAPI(),
		updateFeaturesAPI(),
		describeClusterAPI(),
		describeProducersAPI(),
		listConfigResourcesAPI(),
		describeTopicPartitionsAPI(),
	}
}

// Table finds APIs by key. It is immutable.
type Table struct {
	byKey []*API // nil where a key is not served
	// flexible holds the first version of each key with tagged fields, -1 for none; also for keys that are not served.
	flexible []int16
}

// NewTable returns the table of everything that is served.
func NewTable() *Table {
	t := &Table{byKey: make([]*API, kmsg.MaxKey+1), flexible: make([]int16, kmsg.MaxKey+1)}
	for key := range t.flexible {
		t.flexible[key] = firstFlexible(int16(key))
	}
	for _, a := range all() {
		if t.byKey[a.Key] != nil {
			panic(fmt.Sprintf("api: key %d is registered twice", a.Key)) // a test builds the table: never seen by a user
		}
		t.byKey[a.Key] = &a
	}
	return t
}

func firstFlexible(key int16) int16 {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return -1
	}
	for v := range req.MaxVersion() + 1 {
		if req.SetVersion(v); req.IsFlexible() {
			return v
		}
	}
	return -1
}

// Find returns the API of a key, nil when it is not served.
func (t *Table) Find(key int16) *API {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

// FlexibleFrom returns the first version of a key whose header has tagged fields, -1 when there is none or the key is
// unknown.
func (t *Table) FlexibleFrom(key int16) int16 {
	if key < 0 || int(key) >= len(t.flexible) {
		return -1
	}
	return t.flexible[key]
}

// APIs returns everything that is served, by key.
func (t *Table) APIs() []*API {
	var out []*API
	for _, a := range t.byKey {
		if a != nil {
			out = append(out, a)
		}
	}
	return out
}

package controller

import (
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteTopics answers DeleteTopics (key 20): by name up to version 5, by name or id from version 6.
func (v *view) deleteTopics(req *kmsg.DeleteTopicsRequest) decision {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := deletions(req)
	names, ids := map[string]int{}, map[model.UUID]int{}
	for _, a := range asked {
		if a.Topic != nil {
			names[*a.Topic]++
		}
		ids[a.TopicID]++
	}
	var records []metadata.Record
	gone, answered := map[model.UUID]bool{}, map[string]bool{}
	for _, a := range asked {
		var t *metadata.Topic
		err := v.checkDeletion(&a, req.Version)
		switch {
		case err != nil:
		case a.Topic != nil && names[*a.Topic] > 1:
			err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		case a.Topic == nil && ids[a.TopicID] > 1:
			err = refuse(kerr.InvalidRequest, "Duplicate topic id.")
		default:
			t, err = v.findDeletion(&a)
		}
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = a.Topic, a.TopicID
		out.ErrorCode, out.ErrorMessage = answerOf(err)
		key := deletionKey(&a)
		if err != nil && answered[key] {
			continue // one answer for all of the same name
		}
		answered[key] = true
		if t != nil {
			out.Topic, out.TopicID = &t.Name, t.ID
			if !gone[t.ID] {
				gone[t.ID] = true
				records = append(records, &metadata.RemoveTopicRecord{ID: t.ID})
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return decision{response: resp, records: records, visible: true}
}

// deletions returns what a request of either form asks for.
func deletions(req *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	if req.Version >= 6 {
		return req.Topics
	}
	var ts []kmsg.DeleteTopicsRequestTopic
	for _, name := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		ts = append(ts, t)
	}
	return ts
}

func deletionKey(a *kmsg.DeleteTopicsRequestTopic) string {
	if a.Topic != nil {
		return "name " + *a.Topic
	}
	return "id " + model.UUID(a.TopicID).String()
}

func (v *view) checkDeletion(a *kmsg.DeleteTopicsRequestTopic, version int16) error {
	named, byID := a.Topic != nil, !model.UUID(a.TopicID).IsZero()
	switch {
	case !v.cfg.Topics.DeleteEnabled && version < 3:
		return refuse(kerr.InvalidRequest, "Topic deletion is disabled.")
	case !v.cfg.Topics.DeleteEnabled:
		return kerr.TopicDeletionDisabled
	case named && byID:
		return refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	case !named && !byID:
		return refuse(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	}
	return nil
}

func (v *view) findDeletion(a *kmsg.DeleteTopicsRequestTopic) (*metadata.Topic, error) {
	if a.Topic == nil {
		if t := v.img.TopicByID(a.TopicID); t != nil {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if t := v.img.Topic(*a.Topic); t != nil {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

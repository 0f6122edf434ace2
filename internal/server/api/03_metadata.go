package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// Metadata (key 3) tells where partitions are, and creates topics on demand.
func metadataAPI() API {
	return API{
		Key: 3, Min: 0, Max: 13,
		Since: []string{
			"v1 racks, controller, null for all topics", "v2 cluster id", "v4 a client may forbid creation",
			"v5 offline replicas (KIP-112)", "v7 leader epoch (KIP-320)", "v8 authorized operations (KIP-430)",
			"v10 topic ids (KIP-516)", "v12 topics by id", "v13 error for the whole answer (KIP-1102)",
		},
		Deviations: []string{
			"A topic that is created on demand is waited for, so that the first answer usually names its partitions; Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION and lets the client ask again.",
			"The controller id names the active controller when clients can reach it, else the first live broker; Apache Kafka names a random live broker.",
		},
		serve: answer((*Service).metadata),
	}
}

// metadataJob is one Metadata request in the works.
type metadataJob struct {
	s    *Service
	r    *Request
	q    *kmsg.MetadataRequest
	view *topicView
	resp *kmsg.MetadataResponse
	// denied are missing topics that the requester wanted created but may not create.
	denied map[string]bool
}

func (s *Service) metadata(ctx context.Context, r *Request, q *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	j := &metadataJob{s: s, r: r, q: q, resp: resp, view: newTopicView(s.Cluster.Image(), r.Peer.Listener)}
	switch {
	case q.Topics == nil || r.Version == 0 && len(q.Topics) == 0:
		j.everything()
	case j.malformed():
		j.refuse()
		return resp
	default:
		j.create(ctx)
		j.named()
	}
	j.cluster()
	return resp
}

// malformed reports whether topics are named in a way that the version does not allow.
func (j *metadataJob) malformed() bool {
	for i := range j.q.Topics {
		t := &j.q.Topics[i]
		if j.r.Version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}) {
			return true
		}
	}
	return false
}

func (j *metadataJob) refuse() {
	code := kerr.InvalidRequest.Code
	for i := range j.q.Topics {
		j.add(code, j.q.Topics[i].Topic, j.q.Topics[i].TopicID)
	}
	if j.r.Version >= 13 {
		j.resp.ErrorCode = code
	}
}

// add appends a topic without partitions. A name that is not known is empty in versions that cannot leave it out.
func (j *metadataJob) add(code int16, name *string, id model.UUID) {
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode, t.Topic, t.TopicID = code, name, id
	if name == nil && j.r.Version < 12 {
		t.Topic = new(string)
	}
	t.IsInternal = name != nil && model.IsInternalTopic(*name)
	t.Partitions = []kmsg.MetadataResponseTopicPartition{}
	j.resp.Topics = append(j.resp.Topics, t)
}

// cluster fills in what does not depend on the topics.
func (j *metadataJob) cluster() {
	img := j.view.img
	for b := range img.Brokers() {
		e, ok := listenerOf(b, j.view.listener)
		if !ok || b.Fenced {
			continue
		}
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = e.id, e.host, e.port, e.rack
		j.resp.Brokers = append(j.resp.Brokers, mb)
	}
	id := img.ClusterID()
	j.resp.ClusterID = &id
	j.resp.ControllerID = j.s.controllerHint(img, j.view.listener)
	if j.q.IncludeClusterAuthorizedOperations {
		j.resp.AuthorizedOperations = 0
		if j.s.mayCluster(j.r, kmsg.ACLOperationDescribe) {
			j.resp.AuthorizedOperations = j.s.operations(j.r, kmsg.ACLResourceTypeCluster, clusterName)
		}
	}
}

// everything lists the topics that the requester may see.
func (j *metadataJob) everything() {
	j.resp.Topics = make([]kmsg.MetadataResponseTopic, 0, j.view.img.TopicCount())
	for t := range j.view.img.AllTopics() {
		if j.s.mayTopic(j.r, kmsg.ACLOperationDescribe, t.Name) {
			j.topic(t)
		}
	}
}

// create makes the topics that are named but missing, where broker, client and authorizer allow it, and takes the image
// that shows them.
func (j *metadataJob) create(ctx context.Context) {
	if !j.s.Cluster.Config().Topics.AutoCreate || j.r.Version >= 4 && !j.q.AllowAutoTopicCreation {
		return
	}
	var missing []string
	for i := range j.q.Topics {
		name := j.q.Topics[i].Topic
		switch {
		case name == nil || !isTopicName(*name) || j.view.img.Topic(*name) != nil:
		case !j.mayCreate(*name):
			j.deny(*name)
		default:
			missing = append(missing, *name)
		}
	}
	if len(missing) == 0 {
		return
	}
	j.s.createTopics(ctx, j.r.Caller(), missing) // why one is missing still is no news to the client: it asks again
	j.view = newTopicView(j.s.Cluster.Image(), j.view.listener)
}

func (j *metadataJob) mayCreate(topic string) bool {
	return j.s.mayTopic(j.r, kmsg.ACLOperationDescribe, topic) &&
		(j.s.mayCluster(j.r, kmsg.ACLOperationCreate) || j.s.mayTopic(j.r, kmsg.ACLOperationCreate, topic))
}

func (j *metadataJob) deny(topic string) {
	if j.denied == nil {
		j.denied = map[string]bool{}
	}
	j.denied[topic] = true
}

// named answers for the topics of the request, each once.
func (j *metadataJob) named() {
	seenNames, seenIDs := map[string]bool{}, map[model.UUID]bool{}
	for i := range j.q.Topics {
		t := &j.q.Topics[i]
		if id := model.UUID(t.TopicID); !id.IsZero() {
			if !seenIDs[id] {
				seenIDs[id] = true
				j.byID(id)
			}
			continue
		}
		if t.Topic == nil {
			j.add(kerr.InvalidRequest.Code, nil, model.UUID{})
			continue
		}
		if !seenNames[*t.Topic] {
			seenNames[*t.Topic] = true
			j.byName(*t.Topic)
		}
	}
}

func (j *metadataJob) byID(id model.UUID) {
	t := j.view.img.TopicByID(id)
	switch {
	case t == nil:
		j.add(kerr.UnknownTopicID.Code, nil, id)
	case !j.s.mayTopic(j.r, kmsg.ACLOperationDescribe, t.Name):
		j.add(kerr.TopicAuthorizationFailed.Code, nil, id)
	default:
		j.topic(t)
	}
}

func (j *metadataJob) byName(name string) {
	t := j.view.img.Topic(name)
	switch {
	case j.denied[name] || !j.s.mayTopic(j.r, kmsg.ACLOperationDescribe, name):
		j.add(kerr.TopicAuthorizationFailed.Code, &name, model.UUID{})
	case t != nil:
		j.topic(t)
	case !isTopicName(name):
		j.add(kerr.InvalidTopicException.Code, &name, model.UUID{})
	default:
		j.add(kerr.UnknownTopicOrPartition.Code, &name, model.UUID{})
	}
}

// topic appends an existing topic.
func (j *metadataJob) topic(t *metadata.Topic) {
	j.add(0, &t.Name, t.ID)
	rt := &j.resp.Topics[len(j.resp.Topics)-1]
	rt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		j.partition(&rt.Partitions[i], int32(i), p)
	}
	if j.q.IncludeTopicAuthorizedOperations {
		rt.AuthorizedOperations = j.s.operations(j.r, kmsg.ACLResourceTypeTopic, t.Name)
	}
}

func (j *metadataJob) partition(rp *kmsg.MetadataResponseTopicPartition, index int32, p *metadata.Partition) {
	rp.Default()
	leader, err := j.view.leader(p)
	rp.Partition, rp.Leader, rp.LeaderEpoch = index, leader, p.LeaderEpoch
	rp.Replicas, rp.ISR, rp.OfflineReplicas = filled(p.Replicas), filled(p.ISR), j.view.offline(p)
	rp.ErrorCode = protocol.CodeOf(err)
	if rp.ErrorCode == kerr.ListenerNotFound.Code && j.r.Version < 6 {
		rp.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	if j.r.Version == 0 { // such clients expect to reach whatever is named
		rp.Replicas, rp.ISR = j.view.alive(p.Replicas), j.view.alive(p.ISR)
		if err == nil && (len(rp.Replicas) < len(p.Replicas) || len(rp.ISR) < len(p.ISR)) {
			rp.ErrorCode = kerr.ReplicaNotAvailable.Code
		}
	}
}

package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
)

// ApiVersions (key 18) tells clients what they may send. Its response header never has tagged fields, because a client
// must be able to read it before it knows what the broker speaks; internal/server sees to that.
func apiVersionsAPI() API {
	return API{
		Key: 18, Min: 0, Max: 5,
		Since: []string{
			"v3 client software (KIP-511), features (KIP-584)", "v4 features whose lowest level is 0 (KIP-1022)",
			"v5 cluster and node that the client means to talk to (KIP-1242)",
		},
		Deviations: []string{"A version above 5 is answered in format v0 with UNSUPPORTED_VERSION and the range of this key, as Apache Kafka does."},
		serve:      answer((*Service).apiVersions),
	}
}

func (s *Service) apiVersions(_ context.Context, r *Request, q *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	img := s.Cluster.Image()
	if err := s.checkApiVersions(r, q, img); err != nil {
		resp.ErrorCode = err.Code
		return resp
	}
	for _, a := range s.table.APIs() {
		resp.ApiKeys = append(resp.ApiKeys, apiKey(a))
	}
	describeFeatures(resp, r.Version, img)
	return resp
}

// checkApiVersions returns what is wrong with a request, and remembers the client's software.
func (s *Service) checkApiVersions(r *Request, q *kmsg.ApiVersionsRequest, img *metadata.Image) *kerr.Error {
	if r.Version >= 3 {
		if !isSoftwareName(q.ClientSoftwareName) || !isSoftwareName(q.ClientSoftwareVersion) {
			return kerr.InvalidRequest
		}
		r.Peer.software.Store(&Software{Name: q.ClientSoftwareName, Version: q.ClientSoftwareVersion})
	}
	switch {
	case r.Version < 5 || q.ClusterID == nil && q.NodeID == -1:
		return nil
	case q.ClusterID == nil || q.NodeID == -1:
		return kerr.InvalidRequest
	case *q.ClusterID != img.ClusterID() || q.NodeID != s.NodeID:
		return kerr.RebootstrapRequired
	}
	return nil
}

// isSoftwareName reports whether s consists of letters, digits, '-' and '.', and begins and ends with a letter or digit.
func isSoftwareName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		separator := (c == '-' || c == '.') && i > 0 && i < len(s)-1
		if !alphanumeric && !separator {
			return false
		}
	}
	return s != ""
}

func apiKey(a *API) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Lowest(), a.Max
	return k
}

// describeFeatures lists what this binary supports and what the cluster runs at. Clients of versions below 4 fail to read
// a feature whose lowest level is 0, so they are not told of it.
func describeFeatures(resp *kmsg.ApiVersionsResponse, version int16, img *metadata.Image) {
	for _, f := range metadata.SupportedFeatures() {
		if f.Max < 1 || version < 4 && f.Min == 0 {
			continue
		}
		sf := kmsg.NewApiVersionsResponseSupportedFeature()
		sf.Name, sf.MinVersion, sf.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, sf)
	}
	resp.FinalizedFeaturesEpoch = img.Offset()
	for name, level := range img.Features() {
		ff := kmsg.NewApiVersionsResponseFinalizedFeature()
		ff.Name, ff.MinVersionLevel, ff.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, ff)
	}
}

// unsupportedApiVersions is the answer to a version that is not served: in format v0, which everybody can read, with the
// range of this one key.
func (s *Service) unsupportedApiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{apiKey(s.table.Find(18))}
	return resp
}

package controller

import (
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How far an update of a feature may go.
const (
	upgradeOnly     int8 = 1
	downgradeIfSafe int8 = 2
	downgradeAnyhow int8 = 3
)

// updateFeatures answers UpdateFeatures (key 57). Either all updates are made or none.
func (v *view) updateFeatures(req *kmsg.UpdateFeaturesRequest) decision {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	var records []metadata.Record
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		rs, err := v.updateFeature(u, upgradeType(req.Version, u))
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = answerOf(refuse(kerr.InvalidUpdateVersion,
				"The update failed for all features since the following feature had an error: %s", err))
			return decision{response: resp}
		}
		records = append(records, rs...)
		if req.Version < 2 {
			out := kmsg.NewUpdateFeaturesResponseResult()
			none := "NONE"
			out.Feature, out.ErrorMessage = u.Feature, &none
			resp.Results = append(resp.Results, out)
		}
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{response: resp, records: records, visible: true}
}

func upgradeType(version int16, u *kmsg.UpdateFeaturesRequestFeatureUpdate) int8 {
	switch {
	case version > 0:
		return u.UpgradeType
	case u.AllowDowngrade:
		return downgradeIfSafe
	}
	return upgradeOnly
}

func (v *view) updateFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate, kind int8) ([]metadata.Record, error) {
	name, level := u.Feature, u.MaxVersionLevel
	invalid := func(format string, args ...any) error {
		return refuse(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. "+format, append([]any{level, name}, args...)...)
	}
	if kind < upgradeOnly || kind > downgradeAnyhow {
		return nil, invalid("The controller does not support the given upgrade type.")
	}
	if level < 0 {
		return nil, invalid("A feature version cannot be less than 0.")
	}
	spec, known := metadata.SupportedFeature(name)
	if !known {
		return nil, invalid("Local controller %d does not support this feature.", v.self.nodeID)
	}
	if level < spec.Min || level > spec.Max {
		return nil, invalid("Local controller %d only supports versions %d-%d", v.self.nodeID, spec.Min, spec.Max)
	}
	for b := range v.img.Brokers() {
		if lo, hi := brokerRange(b, name); level != 0 && (level < lo || level > hi) {
			return nil, invalid("Broker %d only supports versions %d-%d", b.ID, lo, hi)
		}
	}
	now := v.img.Feature(name)
	switch {
	case level < now && kind == upgradeOnly:
		return nil, invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level < now && name == metadata.FeatureMetadataVersion && kind == downgradeIfSafe:
		return nil, refuse(kerr.InvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. "+
			"Refusing to perform the requested downgrade because it might delete metadata information.", now, level)
	case level < now && name == metadata.FeatureMetadataVersion:
		return nil, refuse(kerr.InvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. "+
			"Unsafe metadata downgrade is not supported in this version.", now, level)
	case level == now:
		return nil, nil
	}
	extra, err := v.featureSideEffects(name, level)
	if err != nil {
		return nil, err
	}
	return append([]metadata.Record{&metadata.FeatureRecord{Name: name, Level: level}}, extra...), nil
}

func brokerRange(b *metadata.Broker, feature string) (lo, hi int16) {
	for _, f := range b.Features {
		if f.Name == feature {
			return f.Min, f.Max
		}
	}
	return 0, 0
}

// featureSideEffects returns what has to change together with a feature. With ELR all brokers must agree on the number of
// in-sync replicas, so it moves from the brokers' own settings to the cluster's.
func (v *view) featureSideEffects(name string, level int16) ([]metadata.Record, error) {
	if name != metadata.FeatureELRVersion {
		return nil, nil
	}
	if level > 0 {
		return v.strictISRRecords(), nil
	}
	for t := range v.img.AllTopics() {
		for i, p := range t.Partitions {
			if len(p.ISR) == 0 {
				return nil, refuse(kerr.InvalidUpdateVersion, "Partition %s-%d has no in-sync replica: without eligible leader "+
					"replicas nobody would know any more who may lead it.", t.Name, i)
			}
		}
	}
	return nil, nil
}

// strictISRRecords sets min.insync.replicas for the cluster when it is not set, and takes it from single brokers.
func (v *view) strictISRRecords() []metadata.Record {
	var records []metadata.Record
	cluster := metadata.ConfigResource{Type: metadata.ResourceBroker}
	if _, set := v.img.Config(cluster.Type, "")[minISRKey]; !set {
		value := "1"
		if text := v.cfg.Value(minISRKey); text != nil {
			value = *text
		}
		records = append(records, &metadata.ConfigRecord{Resource: cluster, Key: minISRKey, Value: &value})
	}
	for res, kv := range v.img.Configs() {
		if _, set := kv[minISRKey]; set && res.Type == metadata.ResourceBroker && res.Name != "" {
			records = append(records, &metadata.ConfigRecord{Resource: res, Key: minISRKey})
		}
	}
	return records
}

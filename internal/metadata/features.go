package metadata

// Names of the finalized features.
const (
	FeatureMetadataVersion    = "metadata.version"
	FeatureKRaftVersion       = "kraft.version"
	FeatureTransactionVersion = "transaction.version"
	FeatureGroupVersion       = "group.version"
	FeatureELRVersion         = "eligible.leader.replicas.version"
)

// FeatureSpec is one row of the feature table.
type FeatureSpec struct {
	Name string
	// Min and Max are the levels this binary can run at. Max above 0 means that what the level promises is really
	// served: clients switch to other request versions and protocols by it.
	Min, Max int16
	// Initial is the finalized level of a new cluster, 0 for not finalized.
	Initial int16
}

// SupportedFeatures returns the feature table sorted by name. It is the only place that says which levels exist:
// ApiVersions, BrokerRegistration, UpdateFeatures and the first records of a new cluster are made from it. Features
// that nothing here serves (share groups, streams groups) are not in it, so no client tries them.
func SupportedFeatures() []FeatureSpec {
	return []FeatureSpec{
		{FeatureELRVersion, 0, 1, 1},
		{FeatureGroupVersion, 0, 0, 0},
		{FeatureKRaftVersion, 0, 0, 0},
		{FeatureMetadataVersion, 7, 33, 33},
		{FeatureTransactionVersion, 0, 0, 0},
	}
}

// SupportedFeature returns the table's row of a name.
func SupportedFeature(name string) (spec FeatureSpec, ok bool) {
	for _, f := range SupportedFeatures() {
		if f.Name == name {
			return f, true
		}
	}
	return FeatureSpec{}, false
}

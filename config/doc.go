// Package config holds every configuration key that a Kafka 4.4 broker knows, reads them from a properties file, the
// environment and the command line, checks them, and gives the rest of the broker typed values.
//
// It is not where dynamic changes are stored (that is the cluster metadata) and it opens nothing but the file it is
// told to read.
//
//	defaults < --config FILE < KAFKA_* environment < --override < dynamic, cluster-wide < dynamic, this broker
//	                                                                    |
//	keys/*.tsv --> Key --> DescribeConfigs, docs, --help                v
//	          \---------------- parse, check ------------------> *Config  --(topic overrides)--> *Topic
//
// Invariants:
//
//  1. A Config and a Topic never change after they are returned.
//  2. The key tables are the only place that knows names, types, defaults and bounds; fields get their values by key tag.
//  3. Values that were accepted once (Load, Validate*) always resolve later.
//  4. No password leaves the package through Describe, an error or a warning.
package config

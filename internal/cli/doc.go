// Package cli holds the subcommands of kbroker that talk to a cluster: topics, produce, consume, groups, configs, and
// version. They are plain Kafka clients: whatever they do, they do through the public protocol, so they work with any
// Kafka-compatible cluster, and nothing here knows how a broker works inside.
//
// It is not the command that starts a broker; that one is the root command, to which these are added.
//
//	kbroker topic create orders --partitions 3
//	         |                        |
//	   cobra command  --> session (kgo client, checked to answer) --> kadm / kmsg --> printer (table or JSON)
//	         |
//	   error --> Report: one sentence that says what to do, exit code 1 (failed) or 2 (used wrongly)
//
// Invariants:
//
//  1. Results go to Options.Out and nothing else does; notes, warnings and errors go to Options.Err.
//  2. With --json every command writes JSON: one value, or one per line where results come one by one.
//  3. No command changes more than it was asked for: resetting a group only shows its plan unless --execute is given.
//  4. A command that waits ends when its context does.
package cli

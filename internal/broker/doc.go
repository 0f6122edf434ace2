// Package broker hosts the partitions that live on this node. It applies the cluster image (which partitions to lead, to
// follow, to delete), routes appends and fetches to them, holds requests that have to wait for data, for replication or
// for a timer, and runs the periodic work of the logs: retention, flushing, checkpoints.
//
// It knows nothing of frames, versions or connections (internal/server does), and decides nothing about the cluster
// (internal/controller does).
package broker

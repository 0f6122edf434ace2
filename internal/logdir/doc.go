// Package logdir looks after one directory of log.dirs: who it belongs to, who may use it, which partitions lie in it, and
// the small files that the partitions of a directory share. It does not look inside a partition's folder.
//
//	DIR/
//	  .lock                                 held while a process uses the directory
//	  meta.properties                       cluster.id, node.id, directory.id
//	  .kafka_cleanshutdown                  JSON; there only between a clean stop and the next start
//	  recovery-point-offset-checkpoint      per partition: synced below
//	  log-start-offset-checkpoint           per partition: log start, where it is above the first segment
//	  replication-offset-checkpoint         per partition: high watermark
//	  cleaner-offset-checkpoint             per partition: cleaned below
//	  TOPIC-N/                              a partition
//	  TOPIC-N.UUID-delete/                  a partition on its way out
//	  TOPIC-N.UUID-future/                  a copy being made from another directory
//	  TOPIC-N.UUID-stray/                   a folder that the cluster does not know
//
// The layout is Kafka's, so that either broker and Kafka's tools find their way.
//
// Invariants:
//
//	D1  A directory is used by at most one process (.lock).
//	D2  A directory with a meta.properties of another cluster or node is refused and left untouched.
//	D3  .kafka_cleanshutdown is removed, durably, before anything is written: it never vouches for later writes.
//	D4  A partition's folder exists for others only with its partition.metadata in it, durably.
//	D5  An error on one directory makes that directory offline; it is never an error of another.
package logdir

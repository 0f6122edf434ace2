// Package quorum replicates the metadata log among the controllers and keeps the cluster image that it amounts to. The
// consensus is go.etcd.io/raft; this package owns its files, its one loop, and the order of things around it. It does
// not know what the records mean (internal/metadata does) nor who should write them (internal/controller), and it sends
// messages through a Transport that somebody else provides.
//
//	Submit --> queue --+                      +--> Transport
//	                   v                      |
//	Step ---------> loop: RawNode --Ready--> write, sync, THEN send, then apply --> Image
//	tick -----------^                         |                                      |
//	                                          +--> log segments, snapshots           +--> publisher --> subscribers
//
// One goroutine runs the loop and owns raft and the log. A second one calls the subscribers, so that a slow one delays
// neither heartbeats nor commits; what it has not taken yet is one merged delta, not a queue. A third one exists while a
// snapshot is written.
//
// Files of the folder (drawn in docs/formats/metadata-log.md):
//
//	%020d.raftlog            segments of the log, numbered from 1 in order of creation
//	%020d-%010d.snapshot     the image after the entry of that index and term
//	*.tmp                    unfinished; removed at open
//
// Invariants (tests cite them):
//
//	Q1  Nothing is sent or acknowledged before what it rests on is synced: handleReady is the only place that does either.
//	Q2  One write is one frame and one sync, and the next frame is written only after that sync. So after a crash at most
//	    the last frame of the last segment is damaged. A damaged frame with a good one of a later number behind it is not
//	    a torn write but lost data: open refuses.
//	Q3  A segment is renamed into place with its head synced, a snapshot with all of its content synced. Older files go
//	    only after the rename is durable.
//	Q4  A batch that does not fit the image is refused when it is proposed, because once in the log it would stop every
//	    node for good.
//	Q5  Subscribers see images in log order, none twice, and never one from before the node has caught up.
//	Q6  The first error of a write or sync ends Run: what is on disk is no longer known, so nothing may be built on it.
//	Q7  A node with nobody to talk to does not tick: an idle single voter costs no CPU.
package quorum

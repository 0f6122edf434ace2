// Package isr is what the leader of a partition knows of its followers: how far each has fetched, which of them are in
// sync, and hence how far the high watermark may go. It is pure: no log, no network, no clock, no locks. The owner feeds
// events, moves the log's high watermark, and carries proposals to the controller and its answers back.
//
//	metadata  ---- Update ----->+--------+---- Proposal ---> AlterPartition to the controller
//	follower  ---- Fetched ---->| Leader |<--- Answer -----
//	timer     ---- Tick ------->|        |
//	append    ------------------+---> Advance: the new high watermark (after each of these events)
//
// The in-sync replicas as a state:
//
//	            a follower caught up, or one fell behind: propose
//	committed ------------------------------------------------------> pending
//	    ^    <--- answered; metadata of a newer partition epoch -----    |  counts as in sync: committed + added
//	    +-------- not attempted, ineligible: as before ------------------+
//	                                  fenced, outdated, unknown: wait for metadata;  anything else: send it again
//
// Rules that the code cites (Kafka's, checked against the byte code of 4.4.0, except R8 and R9):
//
//	R1  The high watermark is the lowest log end of the leader and the *maximal* ISR: the committed one and what a pending
//	    proposal adds. Either may be what the controller elects from next.
//	R2  It also waits for a replica outside the ISR that is caught up and may join, so that this one gets the chance.
//	R3  It does not move while the committed ISR is smaller than min.insync.replicas, capped at the number of replicas
//	    (KIP-966), and never moves back.
//	R4  A follower is caught up when it is at the leader's log end or was so within replica.lag.time.max.ms; being at
//	    what was the log end at its last fetch counts as of that fetch.
//	R5  A follower may join when it has reached the high watermark and the first offset of the leader's epoch, and its
//	    broker is neither fenced nor shutting down and still has the epoch that it fetched with (KIP-903). A fetch from
//	    an older incarnation of the broker is refused.
//	R6  A member that is not caught up leaves.
//	R7  One proposal at a time. It names the epochs it was made in, and an answer to another one is ignored. A proposal
//	    that may have been taken stays pending until metadata or an answer says what became of it.
//	R8  Metadata of the partition epoch that is known already brings no news of the ISR: a pending proposal stays. (Kafka
//	    drops it, and then counts less than what the controller may be committing.)
//	R9  A follower is a replica incarnation, not a broker id: fetches of another incarnation do not count, and a new
//	    incarnation begins with nothing.
//	R10 In a new leader epoch nothing of the old one is known; members of the ISR have the time of R4 to show up.
package isr

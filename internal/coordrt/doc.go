// Package coordrt runs coordinators: state machines whose state lives in the partitions of an internal topic. It loads a
// partition's state when this broker becomes the leader, runs operations on it one at a time, appends the records that
// they return, and lets an answer go only after the records are committed. It knows neither groups nor transactions; the
// group and the transaction coordinator are shards of it. It does no I/O of its own: a Log does.
//
//	        Write, Submit, Post, timers                        Elected, Resigned
//	                   |                                               |
//	                   v                                               v
//	+--------- partition (one worker at a time) ------------------------------------+
//	|  operation(state, now) -> records --Log.Append--> Shard.Replay --> deferred    |
//	+-----------------------------------------------------------------------|--------+
//	                                           high watermark (OnCommitted) v
//	                                                          Result.Then, answer
//
//	idle --Elected--> loading --log end reached--> active --Resigned, log lost--> idle
//	                     |  ^
//	    damaged, no read v  | back-off
//	                    failed
//
// An operation must not change replicated state itself: it reads the state and returns records, and Replay applies them
// after they have been appended. So there is nothing to roll back when an append fails. State that is not replicated
// (who waits for an answer, timers) it may change at once, and repair in Result.Then.
//
// Readers see the newest state, and their answers wait as those of writers do until everything they may have seen is
// committed. That is linearizable and needs no second version of any value; Kafka keeps snapshots instead and answers
// some reads with older, committed state.
//
// Invariants (tests cite them):
//
//	C1  One goroutine at a time touches a shard and its timers; a shard needs no lock.
//	C2  Replay gets every record of the log once, in the order of the log, at load and live alike; only records of a Result
//	    that is marked Applied are left out live.
//	C3  An operation without error is answered after everything that was appended before the answer is below the high
//	    watermark, unless its Result is marked Soft.
//	C4  Every operation is answered exactly once, whatever happens to the partition or to the runtime.
//	C5  State outlives a change of the leader epoch only if nobody else can have led in between.
//	C6  A partition that nothing happens to costs no goroutine and no armed timer beyond the shard's own.
//	C7  Everything that waits is bounded: operations queued per partition, operations whose records are not committed yet,
//	    bytes per read of a load, bytes per batch.
package coordrt

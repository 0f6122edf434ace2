// Package epoch remembers at which offset each leader epoch began in one partition's log. Followers and leaders find the
// point where their logs part with it, which is how a follower knows what to truncate. It is pure: the owner stores the
// text that AppendText gives (the file leader-epoch-checkpoint) and serializes calls.
//
//	offset   0        10                  25      31 = log end
//	         |--------|-------------------|-------|
//	epoch    0        2                   3
//	EndOf(0) = (0, 10)   EndOf(1) = (0, 10)   EndOf(2) = (2, 25)   EndOf(3) = (3, 31)   EndOf(4) = unknown
//
// Invariants:
//
//	E1  Epochs and start offsets both increase strictly from entry to entry.
//	E2  An entry may be missing (a leader that never wrote); it is never wrong for a batch in the log.
package epoch

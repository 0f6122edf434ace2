// Package faultfs wraps a vfs.FS and makes chosen operations fail, and lets a test watch (or stop) every operation that
// changes something. It is for tests only.
//
//	caller -> faultfs.FS -> hook (mutating operations only) -> rules, first match wins -> base FS
//
// A Rule selects by operation, by path glob, by the n-th matching call, by probability (from the seed given to New), and
// says what happens: an error instead of the operation, or for writes a part of the bytes and then the error.
//
// The hook runs before a mutating operation is tried, without any lock held, so it may use the base FS: with memfs
// below, a test takes a crash clone at every file operation of a scenario. A hook that returns an error stops the
// operation with that error, which plays a machine that lost power: nothing reaches the disk any more.
//
// Invariants:
//
//	F1  Rules are tried in the order they were added; a call counts towards a rule's Nth only when op and path match
//	    and no earlier rule fired.
//	F2  A failed operation has not reached the base FS, except the bytes that Rule.Partial lets through.
package faultfs

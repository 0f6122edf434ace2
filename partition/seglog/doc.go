// Package seglog is a log as a sequence of segments: it finds the segment of an offset, begins new ones, drops old ones and
// cuts the end. It does not interpret batches and does not decide when to do any of this; package partition does.
//
//	logStart ...[segment 0)[segment 1)[ ... )[active)... logEnd
//
// Readers see an immutable list of segments, replaced as a whole. There is one writer at a time.
//
// Invariants:
//
//	L1  There is always an active segment, the last one; only it is appended to.
//	L2  Segments are ordered by base offset, and no batch of one reaches into the next.
//	L3  A segment leaves the list before its files are touched, and its files outlive the readers that have them.
//	L4  Files that are on their way out (.deleted) or half made (.cleaned) never count at Open; neither does a half-done
//	    replacement (.swap): it is completed or undone first.
package seglog

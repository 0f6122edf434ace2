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
//	L3  A segment is marked as retired before its files are touched, so a reader knows that what he found does not count,
//	    and its files outlive the readers that have them.
//	L4  Files that are on their way out (.deleted) or half made (.cleaned) never count at Open; neither does a half-done
//	    replacement (.swap): it is completed or undone first.
//	L5  A change of several segments happens as a whole: it is written down as a plan (segments.plan), durably, then
//	    carried out in steps that may be repeated, then struck out, durably. A crash before the plan leaves the old
//	    segments, one behind it leads to the new ones; nothing in between is ever seen.
//
//	      new segments      segments.plan       x.cleaned -> x.swap     old x -> x.deleted     x.swap -> x      no plan
//	      written, synced -> written, synced -> (as Kafka does) ------> ---------------------> ---------------> synced
//	      undone by Open  |  completed by Open                                                                |  done
package seglog

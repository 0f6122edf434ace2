// Package protocol is the outermost layer of Kafka's wire format: request headers, error codes, and the checks that a frame
// from a stranger must pass before it is decoded. The messages themselves are kmsg's; record batches are protocol/record's.
//
//	frame    length (i32, not counted) | header | body
//	header   api key (i16) | version (i16) | correlation id (i32) | client id (nullable string) | tags, if flexible
//
// Invariants:
//
//	F1  Nothing here panics or allocates by what a frame says; all memory is bounded by the frame's own size.
//	F2  A code is assigned to an error in one place, CodeOf.
package protocol

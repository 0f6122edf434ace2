// Package wire speaks Kafka's protocol as plainly as possible, for tests: frames go out as they are given, and answers come
// back decoded by kmsg. There is no negotiation, no retry and no state beyond the correlation id, so that a broker can be
// asked anything, also nonsense. It is no client for work.
//
// What holds:
//
//  1. A frame that cannot be decoded whole is an error that shows its bytes: what kmsg would silently leave over is counted.
//  2. Nothing waits without a bound: a read ends with its context.
package wire

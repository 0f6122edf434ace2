// Package api answers Kafka's requests: one file per API key, named NN_name.go after it. Each file registers the range
// of versions that it serves; the table of all of them is the only source of ApiVersions and of docs/apis.md. A key that
// is not in the table is refused as Kafka refuses one it does not know.
//
// It knows messages, not bytes: internal/server reads frames, decodes them, keeps the order of answers and sends them.
// It decides nothing about partitions, groups or the cluster either; those stand behind the interfaces of backend.go.
//
//	frame --server--> Request --handler--> authorize -> one backend call -> shape --Reply--> server --> socket
//	                                             |            |
//	                                        Authorizer     Backends: data plane, cluster view, controller, groups
//
// A handler is a function of *Service. Most return their answer and may block: the connection then waits. Produce and
// Fetch take a reply function and answer later from any goroutine.
//
// Invariants (tests cite them):
//
//	A1  Every request gets exactly one Reply, whatever its content; the only reply that sends nothing is that of
//	    Produce with acks=0.
//	A2  A handler never panics and never allocates more than in proportion to the request's bytes.
//	A3  Names and lists of an answer come in the order of the request, or sorted where the request names none: the same
//	    question gets the same bytes.
//	A4  Whatever was refused before a backend was asked (authorization, unknown ids, duplicates) is answered beside what
//	    the backend says of the rest.
//	A5  Fetch answers are encoded here byte by byte as kmsg would, with the record bytes left out: they stay in their
//	    files until the kernel sends them.
package api

//go:generate go run github.com/kbroker/kbroker/internal/gen/apis -o ../../../docs/apis.md

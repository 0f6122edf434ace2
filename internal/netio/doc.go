// Package netio sends bytes and pieces of files over a connection, and sets socket options. What a system can do better
// than the portable way stands in one file per system: on Linux a piece of a file goes from the page cache to the socket
// by sendfile, at an explicit offset, and a head before it is held back by MSG_MORE so that both share packets.
//
// Connections that are not plain TCP (TLS, pipes of tests) and other systems read the file into a pooled buffer and write
// that. The package opens and closes nothing and starts no goroutine.
package netio

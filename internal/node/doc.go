// Package node builds a whole kbroker from a configuration, a file system and a network, runs it until it is told to stop,
// and takes it down in order. Processes and tests use the same path. It decides nothing itself: it knows who needs whom.
//
//	directories -> quorum -> controller -> broker -> coordinators -> registration -> listeners
//
// Clients are let in last, when the whole list of APIs can be served, and sent away first.
package node

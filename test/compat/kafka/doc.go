// Package kafka runs brokers for tests: real Apache Kafka, from the jars of Maven Central, or kbroker, built from this tree.
// Both are started from the same server.properties and are used through the same Cluster, so that a test names its cluster
// and nothing else.
//
//	Workspace            one temporary folder, locked; owns what runs in it; removes it
//	  Cluster            one or more combined nodes (broker and controller)
//	    Node             a process with its own folder and two ports chosen by the kernel
//
// It does not talk to brokers beyond the question whether they serve.
//
// What holds:
//
//  1. A process started here ends with the Workspace, and when the process that owns the Workspace ends in any way: it is
//     asked to (Close), interrupted (SIGINT, SIGTERM, SIGHUP), or killed (the kernel's parent-death signal, on Linux).
//  2. The folder goes with the Workspace. One whose owner was killed is removed by the next Workspace on the machine, which
//     tells by the lock that nobody holds it.
//  3. Jars are kept in the user's cache folder, complete or not at all: they are copied beside it and renamed.
//  4. No port is fixed.
package kafka

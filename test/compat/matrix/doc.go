// Command matrix runs other people's clients against a broker and says which of their cases pass: kbroker, or real Apache
// Kafka, to know what a case is worth.
//
//	clients.yaml --> runner --> cases --> verdict --> docs/compatibility.md
//	                   |
//	                   fresh cluster (test/compat/kafka)
//
// clients.yaml is the list: each client, how it is run, how many cases must pass, and which join later and why. A runner
// is Go code in this package, or a program in ../clients that prints a line per case.
//
// What holds:
//
//  1. A client that cannot be installed or started fails the run by name.
//  2. A case that skips itself fails the run by name, unless clients.yaml says why it is skipped.
//  3. A client that ran fewer cases than clients.yaml says fails, and so does one that ran more: the list is kept true.
//  4. Every client gets a broker of its own, and nothing of it is left behind.
//  5. The last line is the sum: N passed, N failed, N skipped.
package main

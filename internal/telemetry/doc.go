// Package telemetry makes the process's logger and bounds what may be logged. It knows nothing of brokers: every
// component gets its *zap.Logger from its owner, and there is no global one.
//
// What the levels mean here:
//
//	error  an operator must act, or data is at risk: a log directory failed, a partition is offline
//	warn   something is not as configured or as it should be, and the broker goes on: an unknown key, a rejected peer
//	info   what an operator wants to read a week later: start, stop, roles taken, topics created, settings changed
//	debug  single requests and decisions; off by default
package telemetry

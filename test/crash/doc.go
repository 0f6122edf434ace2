// Package crash holds tests that kill real processes: a broker on a real disk, a real client at work, and SIGKILL at moments
// that nobody chose. They are bounded in rounds, wait on conditions, and end only what they started.
package crash

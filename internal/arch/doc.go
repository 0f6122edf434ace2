// Package arch holds no code, only tests that keep the house in the shape docs/ARCHITECTURE.md draws: which floor a
// package stands on, that it introduces itself, that functions and files stay short enough to read in one sitting, and
// that no unfinished work is left behind.
package arch

// Package memfs is a vfs.FS in memory that remembers exactly what was made durable, so that a test can pull the plug at
// any moment and look at every disk that a real crash could have left behind. It is for tests only.
//
// What is durable, and when:
//
//	             live state                      becomes durable by
//	file         pages, length, mtime      ->    File.Sync of any handle of it
//	folder       creations, renames,       ->    FS.SyncDir of the folder (a rename between two folders: of both)
//	             removals of its entries
//
// CrashClone(seed, percent) returns another FS, independent of the first, that holds everything durable plus a random
// share of what is not: percent 0 is the least that a disk may keep, 100 the most, and in between
//
//   - each sector (512 bytes) of unsynced data is old or new on its own: writes tear and reorder;
//   - the length is the synced one, the live one, the shortest since the last sync or a sector boundary in between;
//     bytes that were never written there are zero;
//   - each creation, rename or removal happened or not, whole; later ones that depend on it (the same name in the same
//     folder) did not happen when it did not. Operations on different names reorder freely, as POSIX allows.
//
// Invariants that the code cites:
//
//	M1  A page reachable from a durable state (of this FS or of a clone) is immutable; writers copy it first. Hence a
//	    clone costs pointers, not bytes, and a test can afford one at every file operation.
//	M2  The list of pending folder operations is in the order they happened, and applying all of them to the durable
//	    tree gives the live tree.
//	M3  An operation becomes durable only together with the earlier pending ones it builds on: those on the same names, a
//	    removed folder's emptying, the making of a folder that something was moved into. So a rename never loses a file.
//
// The volume has a size (SetCapacity): a write beyond it writes what fits and fails with ENOSPC. Sparse files cost only
// the pages that were written.
package memfs

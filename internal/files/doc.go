// Package files has operations on files that must not fail halfway: writes that are durable, locks,
// temporary files, and disks that are full.
//
// # Durable writes
//
// When WriteFile, Rename and the others return nil, their effect is on disk, including the
// directory entry. After a crash in the middle, each operation may be repeated. Append is not
// durable, but leaves no torn line on a full disk. A Boundary tells tests of each durable write.
//
// # Lines
//
// EachLine reads the complete lines of a file. It leaves out a last line that its writer did not
// complete.
//
// # Locks
//
// Lock, TryLock and Mutex lock files between processes of one machine, by flock(2). The kernel
// drops a lock when its file is closed, so also when its process ends in any way.
//
// # Disks
//
// RoomOn returns how full a disk is, and IsFull recognizes the error of a write that found it full.
//
// # Temporary files
//
// Nameless creates temporary files without a name: the system removes them when they are closed,
// however the process ends.
package files

// Package inbox has the batches that the service has taken over: their rows in the database, their
// files, what was checked of them, the quarantine, and the room on the disks.
//
// # Ledger
//
// Ledger keeps the state of every batch in the control database. A batch moves from one state to
// the next by one conditional update, which fails with ErrLost if another worker has claimed the
// batch in the meantime. Every change is durable when its method returns.
//
// # Files
//
// Dir keeps the files of batches, from acceptance until they are published and deleted.
//
// Env holds what all stages of ingest have: the ledger, the buffers, and the named durable writes
// at which fault tests kill them.
//
// # Checks
//
// BatchFile is checked against their manifests, or to infer the manifest of a file that came
// without one.
//
// # Quarantine
//
// Quarantine holds batches with anything wrong, each with its reason, until an operator releases or
// discards it. A quarantined batch stands in no other's way.
//
// # Room
//
// Guard keeps the file systems that batches pass through from filling up.
package inbox

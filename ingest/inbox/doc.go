// Package inbox has the batches that the service has taken over: their rows in the database, their
// files, their checks, the quarantine, and the room on the disks.
//
// # Ledger
//
// Ledger keeps the state of every batch in the control database. A batch moves from one state to
// the next by one conditional update, which fails with ErrLost if another worker has claimed the
// batch in the meantime. Every change is durable when its method returns.
//
// # Files
//
// Dir keeps the files of batches in the buffers, from acceptance until the batches are published
// and the files deleted. If the setting uploads.accepted is store, the files lie in the object
// store instead; the methods of Env find them in either place.
//
// Env has what all stages of ingest work with: the ledger, the buffers, and the names of the
// durable writes at which fault tests kill the process.
//
// # Checks
//
// BatchFile checks a batch against its manifest, host by host. InferManifest makes the manifest of
// a file that came without one.
//
// # Quarantine
//
// Quarantine holds batches with anything wrong, each with its reason, until an operator releases or
// discards it. A quarantined batch does not hold up other batches.
//
// # Room
//
// Guard keeps the file systems that batches pass through from filling up.
package inbox

// Package accept takes batches over from the receivers: it checks the manifest, moves the file into
// the buffers and enters the batch as received. It reads a file without manifest to its end and
// makes a manifest for it. It converts a foreign archive to a batch first.
//
// # Records that are no pages
//
// Keep stores the records of an imported archive that are no pages, such as requests and metadata.
// They lie in the store beside the batch's manifest, as two objects: one has the records, grouped
// by host, and the other says where each host's records are.
package accept

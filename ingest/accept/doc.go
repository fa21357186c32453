// Package accept takes batches over from the receivers: it checks the manifest, moves the file into
// the buffers and makes the batch received. A file without manifest is read to its end and gets
// one. A foreign archive is converted to a batch first.
//
// # Records that are no pages
//
// Keep stores the records of an imported archive that are no pages, such as requests and metadata.
// They lie in the store beside the batch's manifest: one object with the records, those of a host
// together, and one that says where each host's are.
package accept

// Package seen holds sets of 64-bit hashes that are too large for memory: one and a
// half bytes of memory and eight of disk for each, and the answers are exact.
//
// New hashes gather in memory. When there are enough of them they become a run: a file of
// sorted hashes, 8 bytes big-endian each. Runs of like length are merged, so that n
// hashes lie in some log2(n/65536) runs (the log-structured merge tree of O'Neil et al.,
// 1996). In memory each run has the first hash of every block, and a Bloom filter
// that tells of most hashes that they are not in it; what the filter lets pass is looked up
// in the one block that can hold it. Hashes that were asked for lately are found without that.
//
// The files have no names and go with the process: whoever uses a set can make it
// anew from what the hashes were made of.
package seen

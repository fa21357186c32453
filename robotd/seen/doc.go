// Package seen has sets of 64-bit hashes that are too large for memory. Each hash takes one and a
// half bytes of memory and eight bytes of disk. The answers are exact.
//
// New hashes are collected in memory. When there are enough, they become a run: a file of sorted
// hashes, 8 bytes big-endian each. Runs of similar length are merged, so that n hashes are in some
// log2(n/65536) runs (the log-structured merge tree of O'Neil et al., 1996). For each run the first
// hash of every block is in memory, and a Bloom filter that excludes most hashes that the run does
// not have. A hash that passes the filter is looked up in the one block that can contain it. Hashes
// that were looked up recently are cached.
//
// The files have no names and vanish with the process: the user of a set can compute it again from
// what was hashed.
package seen

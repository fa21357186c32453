// Package frontier stores, on disk, what a robot has still to fetch, what it has seen, and what its
// pages were like at the last visit.
//
// Each host has a folder with two append-only files for each crawl cycle (usually a day):
//
//	<cycle>.log      one checksummed line for each URL found, in the order of finding
//	<cycle>.journal  one checksummed line for each finished page
//
// A journal line has the offset up to which the log is consumed, the length of the log, the length
// of the host's open segment, and what the page was like (its Visit). No entry is marked as taken:
// the page in hand is the one at the consumed offset. So no crash can lose it.
//
// The set of seen URLs is computed from the logs at start; Seen holds the hashes. A host uses no
// file descriptor, some 400 bytes of memory, and a folder with two files (three from its second
// cycle on). A URL uses two bytes of memory, and its path and 20 bytes on disk.
//
// Pages that are visited several times in a cycle, because somebody waits for their changes, come
// before the queue. They are in a lane in memory, and their journal lines contain their URLs.
//
// A page's links are written to the log first, then its cell to the segment, then its line to the
// journal. After a SIGKILL at any point Align makes the three agree. A cell after the last journal
// line is of the page in hand, which then counts as finished. If the cell is missing, the page is
// fetched again; its links are known already. After a power failure the last journal lines may be
// about cells that did not reach the disk; Align then returns to the last line whose cell exists.
//
// The checksums reveal other damage, such as a flipped bit or a truncated file. Lost journal lines
// are recovered from the segment. If the log has lost lines, Rebuild writes both files again from
// what can be read and from the stored pages. If the state is damaged, pages are archived in full
// once more.
//
// A third file, <cycle>.links, has the hashes of the URLs that new pages link to. It only says
// which pages are the most important; see CountLinks.
//
// At the end of a cycle, visits and URLs that were not visited are merged into one sorted file, the
// state. It has each page's last visit and its history of changes. It is searched on disk, so
// neither searching nor merging uses more memory for hosts with more pages.
//
// An embedded database was measured in place of this package, with 10^6 URLs on 100 hosts: pebble
// 2.1.7 took 5 to 24 times as long for each URL that was queued, found again or finished, and 83 MB
// of memory where this package takes 21. A program with nothing but pebble has 17 MB, robotd 6.
//
// # Seen URLs
//
// Seen has 64-bit hashes, more than there is memory for. Each hash takes one and a half bytes of
// memory and eight bytes of disk. The answers are exact.
//
// New hashes are collected in memory. When there are enough, they become a run: a file of sorted
// hashes, 8 bytes big-endian each. Runs of similar length are merged, so that n hashes are in some
// log2(n/65536) runs (the log-structured merge tree of O'Neil et al., 1996). For each run the first
// hash of every block is in memory, and a Bloom filter that excludes most hashes that the run does
// not have. A hash that passes the filter is looked up in the one block that can contain it. Hashes
// that were looked up recently are cached.
//
// The files have no names and vanish with the process: the user of a Seen can compute it again from
// what was hashed.
package frontier

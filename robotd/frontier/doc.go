// Package frontier remembers, on disk, what a robot has still to fetch, what it
// has seen, and what its pages were like the last time.
//
// Each host has a folder of its own, and each crawl cycle (usually a day) two
// files in it that only grow:
//
//	<cycle>.log      one checksummed line per URL that was found, in the order of finding
//	<cycle>.journal  one checksummed line per finished page
//
// A journal line holds how far the log is consumed, how long the log was, how
// long the host's open segment was, and what the page was like (its
// Visit). Nothing is ever marked as taken: the page in hand is simply the one at
// the consumed offset, so no crash can leave it claimed by nobody.
//
// Which URLs were seen follows from the logs, which are read at start; package seen
// holds their hashes. A host costs no descriptor, some 400 bytes of memory, and two files
// and a folder (three files from its second cycle on); a URL costs two bytes of memory, and
// of disk its path and 20 bytes.
//
// Pages that are visited several times in a cycle, because somebody waits for their changes, come before
// the queue, in a lane that is in memory only; their lines in the journal name their URLs.
//
// The order of writing is: the page's links to the log, then its cell to the
// segment, then its line to the journal. After a SIGKILL at any point Align puts
// the three together again: a cell behind the last journal line belongs to the
// page in hand, which then counts as finished; a cell that is missing means that
// the page is fetched again, and its links are known already. Where the power
// failed, the journal's last lines may speak of cells that never reached the
// disk; Align then goes back to the last line that is true.
//
// Damage beyond that, a bit that flipped or a file that was cut, shows by the checksums.
// Lost lines of the journal are made up from the segment; where the log has lost
// lines, Rebuild makes both files anew from what can be read and from the pages that
// are stored. A damaged state costs full copies.
//
// At the cycle's end the visits, each with what the page's visits have told of how it
// changes, and what was found and not come to, are merged into one sorted file, state, which
// is searched on disk: neither it nor the merging takes more memory where a host has
// more pages.
package frontier

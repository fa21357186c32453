// Package archive reads and writes segments: one host's pages of one night, in
// a file that is an ordinary tar.gz.
//
// A page is deflated once, by the robot that fetched it. Its blocks stand in the segment so that two
// gzip framings share them: that of a tar entry and that of a WARC record. Splitting, joining, choosing, and serving as
// tar.gz or warc.gz are therefore copies of byte ranges, and the size and any range of each such view follow
// from the segment's index alone. FORMAT.md has the bytes.
//
// A [Writer] appends records, survives a crash by way of [Reopen], and seals. [ReadIndex] finds what a
// segment holds; [NewView] makes files of one or many, [PageBodyOf] of a single page. [VerifyRange] checks
// everything in one pass, with an inflater of its own because the format depends on where blocks end.
// [BatchWriter] joins hosts' segments for their way to the service.
//
// The package knows no network and no database.
package archive

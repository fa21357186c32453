// Package archive reads and writes segments: one host's pages of one night, in a file that is an
// ordinary tar.gz.
//
// A page is deflated once, by the robot that fetched it. Its blocks are in the segment in such a
// way that two gzip framings share them: that of a tar entry and that of a WARC record. So
// splitting, joining, selecting, and serving as tar.gz or warc.gz copy byte ranges, and the size
// and any range of each such view follow from the segment's index alone. FORMAT.md describes the
// bytes.
//
// A [Writer] appends records and seals the segment; [Reopen] continues after a crash. [ReadIndex]
// reads what a segment holds. [NewView] makes files of one or many segments, [PageBodyOf] a file of
// a single page. [VerifyRange] checks everything in one pass, with the inflater of package deflate,
// because the format depends on where blocks end. [BatchWriter] joins the segments of hosts for the
// upload to the service.
//
// The package uses no network and no database.
package archive

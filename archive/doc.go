// Package archive reads and writes segments: one host's pages of one night, in a file that is an
// ordinary tar.gz.
//
// A page is deflated once, by the robot that fetched it. In the segment, two gzip framings share
// its blocks: that of a tar entry and that of a WARC record. So Sheaf copies byte ranges when it
// splits, joins and selects segments and serves them as tar.gz or warc.gz. The segment's index
// alone gives the size and any range of each such view. FORMAT.md describes the bytes.
//
// A [Writer] appends records and seals the segment; [Reopen] continues after a crash. [ReadIndex]
// reads a segment's index. [NewView] makes files of one or many segments, [PageBodyOf] a file of a
// single page. [VerifyRange] checks everything in one pass. It uses the inflater of package
// deflate, because the format depends on where blocks end. [BatchWriter] joins the segments of
// hosts for the upload to the service.
//
// The package uses no network and no database.
package archive

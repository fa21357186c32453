// Package foreign converts what others have collected to a batch: WARC files (versions 1.0 and 1.1)
// and ARC files (versions 1 and 2), plain, in one gzip member, with a member for each record, or in
// Zstandard; WACZ files, of which the WARC files are read (see Result.Unread); and tar.gz trees of
// page files, as the robots of 1999 sent them. The directories of a tree's hosts may all lie in
// one, and host maps beside them or beside that one.
//
// An import is treated as one more robot. The result is a whole batch, with hosts, index and
// manifest, and every later step treats it as any batch: it is verified to its last byte, can be
// quarantined, and is published once however often the same file comes. For that the conversion
// depends on nothing but the file: the same bytes give the same batch.
//
// HTTP responses and resources become pages and error pages. The answer to a request other than GET
// has method and body of the request in its URL (see FORMAT.md). Revisits stay revisits, of a page
// of the same file, of another one or of none that is here. All other records (requests, metadata,
// warcinfo, conversions, DNS, what a segment cannot hold) are the file's others. They are returned
// as they are, a gzip member each, in the order of the file, to be kept beside the batch. Those of
// an ARC get a WARC header. A response whose body is too long for a record is also returned whole.
// One that answers for an address, and that no reader finds there, is named in Result.Aside.
// The header of each record comes along: see archive.Record.Original. If something of it, or the
// HTTP header as it came, does not fit, a metadata record among the others has both.
//
// What is wrong with a file is an *Error with the place and a reason code of internal/wire. Nothing
// of the file is used then. A lenient conversion of a WARC, an ARC or a WACZ takes the records that
// are right, and says which places it left out: see Options.Lenient.
package foreign

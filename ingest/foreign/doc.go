// Package foreign converts files of other archives to batches:
//
//   - WARC files (versions 1.0 and 1.1) and ARC files (versions 1 and 2), plain, in one gzip
//     member, with a member for each record, or in Zstandard;
//   - WACZ files, of which it reads the WARC files (see Result.Unread);
//   - tar.gz trees of page files, as the robots of 1999 sent them. The directories of a tree's
//     hosts may all lie in one directory. Host maps may lie beside them or beside that directory.
//
// An import is treated as one more robot. The result is a whole batch, with hosts, index and
// manifest. Every later step treats it as any batch: it is verified to its last byte, can be
// quarantined, and is published once, however often the same file comes. Therefore the conversion
// depends on nothing but the file: the same bytes give the same batch.
//
// HTTP responses and resources become pages and error pages. The answer to a request other than GET
// has the request's method and body in its URL (see FORMAT.md). Revisits stay revisits; their page
// may be in this file, in another file, or missing. All other records (requests, metadata,
// warcinfo, conversions, DNS, and records that a segment cannot hold) are the file's others. They
// are returned unchanged, each as one gzip member, in the order of the file, to be kept beside the
// batch. Those of an ARC get a WARC header. A response whose body is too long for a record is also
// returned whole. Result.Aside lists the others that readers would expect at an address and do not
// find there. Each stored record keeps its original header: see archive.Record.Original. If the
// WARC header or the HTTP header does not fit completely, a metadata record among the others has
// both.
//
// Links are found as robots find them (package page).
//
// If a file is wrong, the error is an *Error with the place and a reason code of internal/wire, and
// nothing of the file is used. A lenient conversion of a WARC, an ARC or a WACZ uses the intact
// records and lists the places that it left out: see Options.Lenient.
package foreign

// Package foreign turns what others have collected into a batch of ours: WARC files
// (versions 1.0 and 1.1; plain, in one gzip member, or a member a record) and tar.gz
// trees of page files, as the robots of 1999 sent them.
//
// The idea is that import is a robot like any other. What comes out is a whole batch, hosts,
// index, manifest and all, and goes the way of every batch from there: it is verified
// to its last byte, can be quarantined, is published once however often the same file
// comes. So the conversion follows from the file alone: the same bytes give the same
// batch, byte for byte.
//
// Responses of HTTP become pages and answers, and so do resources; revisits refer
// to what the file itself brought before them, or to our own digests. Everything else
// (requests, metadata, warcinfo, conversions, DNS, what cannot be a record of ours)
// is passed on as it stands, a gzip member each, in the order of the file: it is kept
// beside the batch. So is an answer whose body the format must cut.
//
// What is wrong with the file is an *Error with the place and a reason code of
// internal/wire; nothing of it is taken then.
package foreign

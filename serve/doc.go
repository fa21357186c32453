// Package serve hands out what is published: a read-only Library over the catalog
// and the store, and the accounts of those who may read it.
//
// The idea is one tree. A path means the same by FTP, under /pub/ by HTTP and to
// every later protocol, because all of them ask the same Library:
//
//	/README                          what is where, for people
//	/LATEST                          the name of the newest edition
//	/ls-lR.gz                        every edition's files of every host; for who asks by name, not listed
//	/editions/20261121/HOSTS         the hosts of which the edition brought something
//	/editions/20261121/MANIFEST      its files: size, digest, ETag, provenance; a JSON object a line
//	/editions/20261121/SHA256SUMS    its files' digests, for sha256sum -c
//	/editions/20261121/ls-lR.gz      its files, as ls -lR lists them
//	/editions/20261121/00001/…       the same, in shards, of an edition of very many hosts
//	/feed/LATEST, /feed/000000/…     what was published and withdrawn, by number: see package feed
//	/jp/ac/waseda/www/               a host, by its reversed name, and beside it the hosts below it
//	    20261121.tar.gz              what the edition brought of it; immutable once listed
//	    20261121.warc.gz
//	    current.tar.gz, .warc.gz     the latest version of every page
//	    all.tar.gz, .warc.gz         everything, in order of publication
//	    20261121.links.gz, all.…     where its pages lead: source, target, kind; if robots wrote that down
//	    20261121.others.warc.gz, all.…   records of imported files that are no answers
//	    MANIFEST, SHA256SUMS
//
// Three more forms of each archive, and current.links.gz, are there for who asks by name, and not listed,
// so that a mirror does not fetch everything five times: .members.tar.gz is the
// stored bytes themselves, one gzip member a header and a body, .cdxj is the
// index of the records, and .wacz is both records and index for a player. So is
// an archive of several days, such as 20261101-20261121.warc.gz: what the editions
// of these days brought.
//
// A directory that would list more than ten thousand hosts is fanned out by first letters,
// /jp/ne/blog/a+/aki/: see fan.go. The plain path is valid too, everywhere.
//
// Every call looks at one catalog version, pinned for as long as the call, the
// listing or the open file lasts: a publish in between changes nothing that is
// being read. Nothing is compressed or buffered here; an archive is computed from
// its segments' indexes (archive.View) and copied out of the store in ranges. Where
// the store is a directory the ranges are extents of its files (File.Extents), which
// the kernel sends; only what is short or made here is copied.
//
// A single page is found by its URL key (Captures), opened as the server answered it
// (Capture.Response) and made readable by package replay.
//
// Beside the tree are searches (Search): for records by URL, host, domain or
// time, in an order in which a place stays what it is. The URL index (archive/urlindex) finds
// them where it covers a host's segments, and their own indexes where it does not yet.
// What they find is put together as one file by a Gatherer. Package query is the
// language in which consumers ask; package jobs gathers in the background. Coverage
// tells, out of the batches' manifests, what is not here and why.
//
// What an account may see is its scope, domains as places in the tree. All else
// does not exist for it: it is neither listed nor found. When it may fetch is its
// window, and how fast and how much a day its rate and quota (serve/bandwidth).
// Looking around is always allowed, and so are /README and /feed. What an operator
// changes of an account holds for what it has open too.
package serve

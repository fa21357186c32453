// Package records finds single records: the answers that robots stored of a URL, a host, a domain
// or everything, in an order in which a position stays valid.
//
// The URL index (archive/urlindex) finds them in the segments that it covers, and the segments' own
// indexes find them in the others. That makes no difference to what is found, nor to its order. A
// Capture is one record. It opens the answer as the server gave it, and checks that the stored
// bytes are those that were published.
//
// # Queries
//
// A Query is in the query language for records: the parameters of pywb's CDX server and of the
// Internet Archive's, as far as they are compatible, on top of the Library's search.
//
//	url         a URL; *.example.jp is a domain (or a TLD: *.jp), example.jp/a/* a prefix;
//	            without it: everything
//	matchType   exact (default), prefix, host, domain
//	from, to    time of the fetch: 4 to 14 digits, or RFC 3339; both inclusive
//	edition     only records that the edition of this name brought
//	collection  only records that were imported as the collection of this name
//	modified    when the page was last changed, as its server said with the answer (Last-Modified): a
//	            time, such as 2026, or a period A/B, of which one end may be missing. It leaves out
//	            answers without this time, and reads a part of each record that passes the filters
//	language    only pages in a language, such as ja. The beginning of each page that passes the
//	            filters before it is read
//	filter      [!][=|~]field:expr; may be repeated: all must apply (see Filter)
//	preference  NAME, NAME:TEXT, any, or !: what the record's owner asks of those who use it; may be
//	            repeated: all must apply (see preference.ParseFilter)
//	collapse    field[:n]; may be repeated: keeps the first of successive records that are equal
//	            in the field, or in its first n characters
//	latest      true: of each URL key only the newest record that passes the filters
//	closest     a time: nearest records first; for one URL
//	sort        default, reverse (for one URL, prefix or host), closest
//	limit       maximum number of lines; negative: the last ones, for one URL, prefix or host
//	fastLatest  true: the last lines, like a negative limit (1 line without limit)
//	offset      number of records to skip; a cursor has what is left of it
//	fl, fields  fields, separated by commas; warc.NAME is a field of the record's WARC header
//	output      cdxj (default), json, ndjson, text
//	originals   for files: whether to add the page that a revisit refers to. The default is true
//	            in a tar, where a revisit itself is no file, and false in a WARC
//	cursor      where to continue; resumeKey means the same; showResumeKey writes it at the end
//	page        from 0: one part of the answer, of about pageSize blocks of 3000 searched records;
//	            after the last part the answer is empty. Parts may be fetched concurrently
//	pageSize    1 to 33, default 5
//	showNumPages  true: only the number of pages, as pywb's JSON, or as a number with output=text
//	gzip        false: do not compress the answer, even if the client accepts it
//
//	resolveRevisits    true: orig.length, orig.offset and orig.filename are the place of the page
//	                   that a revisit refers to
//	showDupeCount      true: dupecount is the number of earlier records with the same digest; for
//	                   one URL
//	showSkipCount      true: skipcount is the number of records after this one that filters and
//	                   collapses left out
//	lastSkipTimestamp  true: endtimestamp is the time of the last of these
//
// If an answer ends before its query does, the last line's skipcount only counts up to there.
//
// Pages are divided between hosts, and within a host if the URL index covers it. The division
// changes when something is published: a client that must not miss anything uses cursors instead.
//
// A cursor is a position in the order of records (records.Position). It belongs to the search and
// not to the fields, the output or the limit.
package records

// Package query is the language in which records are asked for: the parameters of
// pywb's CDX server and of the Internet Archive's, as far as they fit together, over
// the Library's search.
//
//	url         a URL; *.example.jp is a domain (or a TLD: *.jp), example.jp/a/* a prefix; absent: everything
//	matchType   exact (default), prefix, host, domain
//	from, to    of the fetch: 4 to 14 digits, or RFC 3339; both inclusive
//	filter      [!][=|~]field:expr, several: all must hold (see Filter)
//	collapse    field[:n], several: of neighbours equal in the field, or its first n characters, the first
//	latest      true: of each URL key only the newest record that passes
//	closest     a time: nearest records first; of one URL
//	sort        default, reverse (one URL, prefix or host), closest
//	limit       lines at most; negative: the last ones, of one URL, prefix or host
//	fastLatest  true: the last lines, as a negative limit (of 1 where none is given)
//	offset      records to pass over before the first; a cursor knows what is left of them
//	fl, fields  fields, with commas between them
//	output      cdxj (default), json, ndjson, text
//	originals   of files: whether a revisit brings the page that it refers to. True unless
//	            said otherwise in a tar, where a revisit itself is no file; false in a WARC
//	cursor      where to go on; resumeKey is the same, and showResumeKey puts it at the end
//	page        from 0: one part of the answer, of about pageSize blocks of 3000 records that are looked
//	            at; behind the last there is nothing. Parts are searched at once, or by many machines
//	pageSize    1 to 33, 5 where none is given
//	showNumPages  true: only how many pages there are, as pywb's JSON, and the number alone in output=text
//	gzip        false: the answer is not compressed, not even for who takes that
//
//	resolveRevisits    true: orig.length, orig.offset and orig.filename tell where the page lies that a revisit refers to
//	showDupeCount      true: dupecount tells how many records before had the same digest; of one URL
//	showSkipCount      true: skipcount tells how many records filters and collapses left out behind a record
//	lastSkipTimestamp  true: endtimestamp tells when the last of these was fetched
//
// Where an answer ends before its query does, the last line's skipcount is that up to there.
//
// Pages are cut between hosts, and within a host where the URL index covers it. They are cut anew whenever
// something is published: who must miss nothing walks by cursor.
//
// A cursor is a place in the order of records (serve.Position): it belongs to what
// is searched and not to the fields, the form or the limit.
package query

import "fmt"

// ParamError says that a parameter is wrong.
type ParamError struct {
	Name  string
	Value string
	Why   string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s=%.200q: %s", e.Name, e.Value, e.Why)
}

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
//	fl          fields, with commas between them
//	output      cdxj (default), json, ndjson, text
//	originals   of files: whether a revisit brings the page that it refers to. True unless
//	            said otherwise in a tar, where a revisit itself is no file; false in a WARC
//	cursor      where to go on; resumeKey is the same
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

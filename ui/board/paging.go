package board

import (
	"net/http"
	"net/url"
	"strconv"
)

// listed is how many lines a page lists. The rest is on the next pages.
const listed = 100

// pager leads from one page of a list to the next.
type pager struct {
	From, To, Total int    // lines, counted from 1; Total is 0 where it is not known
	First, Next     string // paths; empty: there is none
}

// paged returns the part of a list that a request asks for by from=, its first line counted from 0.
func paged[T any](r *http.Request, all []T) ([]T, pager) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from >= len(all) {
		from = 0
	}
	to := min(from+listed, len(all))
	p := pager{From: from + 1, To: to, Total: len(all)}
	if from > 0 {
		p.First = withQuery(r, "from", "")
	}
	if to < len(all) {
		p.Next = withQuery(r, "from", strconv.Itoa(to))
	}
	return all[from:to], p
}

// after cuts a list of one line more than is listed, which begins after the line that the request
// names by after=. id names a line.
func after[T any](r *http.Request, lines []T, id func(T) string) ([]T, pager) {
	var p pager
	if r.URL.Query().Get("after") != "" {
		p.First = withQuery(r, "after", "")
	}
	if len(lines) > listed {
		lines = lines[:listed]
		p.Next = withQuery(r, "after", id(lines[listed-1]))
	}
	return lines, p
}

// withQuery returns the request's path with another value for a key of its query; an empty value
// leaves the key out.
func withQuery(r *http.Request, key, value string) string {
	q := r.URL.Query()
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	to := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	return to.String()
}

package board

import (
	"net/http"
	"net/url"
	"strconv"
)

// listed is the number of lines on one page of a list.
const listed = 100

// pager has the links from one page of a list to others.
type pager struct {
	From, To, Total int    // lines, counted from 1; Total is 0 if it is not known
	First, Next     string // paths; empty: there is none
}

// paged returns the part of a list that begins with the line in the query from=, counted from 0.
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

// after returns one page of lines. lines begins after the line that the query's after= names, and
// has one line more than a page if there is a next page. id returns a line's name.
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

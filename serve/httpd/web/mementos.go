package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// mementos are the versions of one page that can be shown, by time. Of one URL's answers in one
// second, only the best by rank is a version, and of equal ones the last. A part of a body is no
// version if any answer has a page. Every other record has a path of its own (replay.RecordPath).
type mementos []*records.Capture

// mementos returns the versions of a page. If the page has none, it answers 404 and returns nil.
func (p *Pages) mementos(w http.ResponseWriter, r *http.Request, a *account.Account, url string) (mementos, error) {
	all, err := p.versionsOf(r.Context(), a, url)
	if err == nil && len(all) == 0 {
		err = p.missing(w, r, a, url)
	}
	return all, err
}

// versionsOf returns the versions of a page, or nil if there are none.
func (p *Pages) versionsOf(ctx context.Context, a *account.Account, url string) (mementos, error) {
	records, err := p.recordsOf(ctx, a, url)
	return versionsAmong(records), err
}

// recordsOf returns the records of a page that can be shown, by time. It leaves out revisits whose
// original is missing, and records that belong to no page.
func (p *Pages) recordsOf(ctx context.Context, a *account.Account, url string) (mementos, error) {
	captures, err := p.Records.Captures(ctx, a, url)
	return slices.DeleteFunc(captures, func(c *records.Capture) bool { return !c.Stands() }), err
}

// versionsAmong returns the records that are versions of their page.
func versionsAmong(of mementos) (all mementos) {
	all = slices.Grow(all, len(of))
	whole := slices.ContainsFunc(of, func(c *records.Capture) bool { return rank(c) <= rankCut })
	for _, c := range of {
		if whole && rank(c) == rankPart {
			continue
		}
		switch n := all.last(c); {
		case n < 0:
			all = append(all, c)
		case rank(c) <= rank(all[n]):
			all = append(slices.Delete(all, n, n+1), c)
		}
	}
	return all
}

// atSecond reports whether a record was fetched in the second of t: both have one timestamp.
func atSecond(c *records.Capture, t time.Time) bool { return c.Time.Unix() == t.Unix() }

// showing returns the versions with a record among them, and the record's index. The record takes
// the place of the version of its second and URL, if there is one.
func (m mementos) showing(c *records.Capture) (mementos, int) {
	m = slices.Clone(m)
	for i, v := range m {
		switch {
		case atSecond(v, c.Time) && v.URL == c.URL:
			m[i] = c
			return m, i
		case v.Time.After(c.Time):
			return slices.Insert(m, i, c), i
		}
	}
	return append(m, c), len(m)
}

// last returns the index of the version with a record's second and URL, or -1. It looks only at
// versions of that second at the end of m.
func (m mementos) last(c *records.Capture) int {
	for i, v := range slices.Backward(m) {
		switch {
		case !atSecond(v, c.Time):
			return -1
		case v.URL == c.URL:
			return i
		}
	}
	return -1
}

// Ranks of answers: how much they say of a page.
const (
	rankPage    = iota
	rankCut     // a page that is not whole
	rankAnswer  // such as a redirect, or that the page is gone
	rankPart    // of a body
	rankTrouble // of the server, which passes
)

func rank(c *records.Capture) int {
	switch of := answered(c); {
	case trouble(c):
		return rankTrouble
	case of.Status == http.StatusPartialContent && of.Kind != archive.Page:
		return rankPart
	case of.Status/100 != 2:
		return rankAnswer
	case truncated(c) != "":
		return rankCut
	}
	return rankPage
}

// at returns the index of the version of exactly that second, or -1 if there is none. It prefers
// the version whose URL is written like url.
func (m mementos) at(t time.Time, url string) int {
	found := -1
	for i, c := range m {
		if atSecond(c, t) && (found < 0 || replay.InPath(c.URL) == replay.InPath(url)) {
			found = i
		}
	}
	return found
}

// nearest returns the index of the version nearest to a period's end. Versions within the period go
// before all others. It ignores the versions in skip, and returns -1 if no other is left. The zero
// period means now. Versions that show a server's passing trouble count only if there is nothing
// else.
func (m mementos) nearest(p replay.Period, skip map[int]bool) int {
	best := -1
	for i, c := range m {
		switch {
		case skip[i]:
		case best < 0, trouble(m[best]) && !trouble(c):
			best = i
		case trouble(c) && !trouble(m[best]), p.Has(m[best].Time) && !p.Has(c.Time):
		case p.Time.IsZero(), p.Has(c.Time) && !p.Has(m[best].Time), c.Time.Sub(p.Time).Abs() <= m[best].Time.Sub(p.Time).Abs():
			best = i
		}
	}
	return best
}

func trouble(c *records.Capture) bool {
	return c.Kind != archive.Page && (c.Status >= 500 || c.Status == http.StatusTooManyRequests || c.Status == http.StatusForbidden)
}

// maxLookedInto is how many versions one request reads at most, to find a version that shows
// something.
const maxLookedInto = 50

// choose is nearest among the versions that show something. If it finds none, it returns the
// nearest of all. A redirect from http to https, or to the name with www, shows nothing: both URLs
// count as one page, so such a version would lead to itself. choose looks into at most left
// versions, and counts left down.
func (m mementos) choose(ctx context.Context, p replay.Period, left *int) (int, error) {
	skip := make(map[int]bool)
	for ; *left > 0; *left-- {
		i := m.nearest(p, skip)
		if i < 0 {
			break
		}
		to, err := leadsTo(ctx, m[i])
		if err != nil || to == "" || naming.SURT(to) != naming.SURT(m[i].URL) {
			return i, err
		}
		skip[i] = true
	}
	return m.nearest(p, nil), nil
}

// leadsTo returns where a version leads if it is a redirect; otherwise "".
func leadsTo(ctx context.Context, c *records.Capture) (string, error) {
	if !redirects(c) {
		return "", nil
	}
	answer, err := c.Response(ctx)
	if err != nil {
		return "", err
	}
	return locationOf(c, answer), answer.Body.Close()
}

// maxHops is how many stored redirects lead on, one after the other. Browsers follow 20.
const maxHops = 9

// lead returns the path, in a mode, of the URL to, where redirect c leads. It is "" if the
// redirects that follow never end at a page: they lead in a circle, or too far.
func (p *Pages) lead(ctx context.Context, a *account.Account, c *records.Capture, to string, mode replay.Mode) (first string, err error) {
	seen, at, left := map[string]bool{path(c): true}, c.Time, maxLookedInto
	for range maxHops {
		all, err := p.versionsOf(ctx, a, to)
		if err != nil {
			return "", err
		}
		next := replay.Path(at, mode, to)
		if len(all) == 0 {
			return cmp.Or(first, next), nil
		}
		i, err := all.choose(ctx, replay.Period{Since: at, Time: at}, &left)
		if err != nil {
			return "", err
		}
		if c = all[i]; seen[path(c)] {
			return "", nil
		}
		seen[path(c)], at = true, c.Time
		first = cmp.Or(first, replay.Path(c.Time, mode, c.URL))
		if to, err = leadsTo(ctx, c); err != nil || to == "" {
			return first, err
		}
	}
	return "", nil
}

func redirects(c *records.Capture) bool { return answered(c).Status/100 == 3 }

// answered returns the record that gives a version its status: the original of a 304, or else the
// version itself.
func answered(c *records.Capture) *records.Capture {
	if c.Original != nil && c.Status == http.StatusNotModified {
		return c.Original
	}
	return c
}

// locationOf returns where a stored redirect leads, as an absolute URL. It returns "" if the target
// is no web address, or is not given.
func locationOf(c *records.Capture, answer *records.Response) string {
	base, err := weburl.New(c.URL, nil)
	if err != nil {
		return ""
	}
	location := answer.Get("Location")
	to, err := base.Resolve(location, nil)
	if err != nil || location == "" || !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
		return ""
	}
	return to
}

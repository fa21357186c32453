package web

import (
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

// mementos are the versions of one page that can be shown, by time. Of several versions in the same
// second and of the same URL there is only the last.
type mementos []*records.Capture

// mementos returns the versions of a page. If there are none it answers so, and returns nil.
func (p *Pages) mementos(w http.ResponseWriter, r *http.Request, a *account.Account, url string) (mementos, error) {
	captures, err := p.Library.Records.Captures(r.Context(), a, url)
	if err != nil {
		return nil, err
	}
	var all mementos
	for _, c := range captures {
		if !c.Stands() {
			continue // a revisit whose original is missing, or a record that is no page's
		}
		for n := len(all) - 1; n >= 0 && replay.Timestamp(all[n].Time) == replay.Timestamp(c.Time); n-- {
			if all[n].URL == c.URL {
				all = slices.Delete(all, n, n+1)
				break
			}
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, p.missing(w, r, a, url)
	}
	return all, nil
}

// at returns the index of the version of exactly that second, or -1 if there is none. It prefers
// the one whose URL is written like url.
func (m mementos) at(t time.Time, url string) int {
	found := -1
	for i, c := range m {
		if replay.Timestamp(c.Time) == replay.Timestamp(t) && (found < 0 || c.URL == url) {
			found = i
		}
	}
	return found
}

// nearest returns the index of the version nearest to a time, or -1 if skip has them all. The zero
// time is now. Versions that show a server's passing trouble count only if there is nothing else.
func (m mementos) nearest(t time.Time, skip map[int]bool) int {
	best := -1
	for i, c := range m {
		switch {
		case skip[i]:
		case best < 0, trouble(m[best]) && !trouble(c):
			best = i
		case trouble(c) && !trouble(m[best]):
		case t.IsZero(), c.Time.Sub(t).Abs() <= m[best].Time.Sub(t).Abs():
			best = i
		}
	}
	return best
}

func trouble(c *records.Capture) bool {
	return c.Kind != archive.Page && (c.Status >= 500 || c.Status == http.StatusTooManyRequests || c.Status == http.StatusForbidden)
}

// maxSelfRedirects is how many versions are looked into for one that leads somewhere.
const maxSelfRedirects = 50

// choose returns the index of the version nearest to a time that shows something, or -1 if there is
// none. Redirects from http to https, or to the name with www, are passed over: these count as one
// page, so such a version would lead to itself.
func (m mementos) choose(ctx context.Context, t time.Time) (int, error) {
	skip := make(map[int]bool)
	for range maxSelfRedirects {
		i := m.nearest(t, skip)
		if i < 0 || !redirects(m[i]) {
			return i, nil
		}
		answer, err := m[i].Response(ctx)
		if err != nil {
			return -1, err
		}
		answer.Body.Close()
		if to := locationOf(m[i], answer); to == "" || naming.SURT(to) != naming.SURT(m[i].URL) {
			return i, nil
		}
		skip[i] = true
	}
	return -1, nil
}

func redirects(c *records.Capture) bool { return answered(c).Status/100 == 3 }

// answered returns the record whose status a version is shown with.
func answered(c *records.Capture) *records.Capture {
	if c.Original != nil && c.Status == http.StatusNotModified {
		return c.Original
	}
	return c
}

// locationOf returns where a stored redirect leads, as an absolute URL, or "" if that is no web
// address.
func locationOf(c *records.Capture, answer *records.Response) string {
	base, err := weburl.New(c.URL, nil)
	if err != nil {
		return ""
	}
	to, err := base.Resolve(answer.Get("Location"), nil)
	if err != nil || !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
		return ""
	}
	return to
}

package httpd

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/problem"
	"sheaf/internal/weburl"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/replay"
)

// Where stored pages are shown: replay.Root, and these.
const (
	pathTimeGate = "/timegate/"
	pathTimeMap  = "/timemap/"
	pathDiff     = "/diff/"
)

// registerPages mounts what shows stored pages.
func (s *server) registerPages(r *mux.Router) {
	// A URL in a path has slashes in a row, and dots that are not the path's own.
	r.SkipClean(true)
	for prefix, h := range map[string]func(http.ResponseWriter, *http.Request, *account.Account) error{
		replay.Root: s.web, pathTimeGate: s.timeGate, pathTimeMap: s.timeMap, pathDiff: s.diff,
	} {
		r.PathPrefix(prefix).Handler(s.authenticated(h)).Methods(http.MethodGet, http.MethodHead, http.MethodOptions)
	}
	r.Handle(strings.TrimSuffix(pathDiff, "/"), s.authenticated(s.diffForm)).Methods(http.MethodGet, http.MethodHead, http.MethodOptions)
}

// target is what follows a prefix in a request's path, with the query: a URL in a
// path has its own slashes, escapes and question mark.
func target(r *http.Request, prefix string) string {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), prefix)
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		rest += "?" + r.URL.RawQuery
	}
	return rest
}

// badAddress turns what replay says of an address into a problem.
func badAddress(err error) error {
	switch {
	case errors.Is(err, replay.ErrTimestamp):
		return problem.New(http.StatusBadRequest, "timestamp", err.Error())
	case errors.Is(err, replay.ErrURL):
		return problem.New(http.StatusBadRequest, "url", err.Error())
	}
	return err
}

// mementos are the versions of one page that can be shown, by time; of the same
// second and URL the last one only.
type mementos []*serve.Capture

func (s *server) mementos(r *http.Request, a *account.Account, url string) (mementos, error) {
	captures, err := s.Library.Captures(r.Context(), a, url)
	if err != nil {
		return nil, err
	}
	var all mementos
	for _, c := range captures {
		if c.Kind != archive.Page && c.Kind != archive.Response && c.Original == nil {
			continue // a revisit of what is not here, or a record that is no page's
		}
		for n := len(all) - 1; n >= 0 && replay.Timestamp(all[n].Time) == replay.Timestamp(c.Time); n-- {
			if all[n].URL == c.URL {
				all = slices.Delete(all, n, n+1)
				break
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// at returns the version of exactly that second, of the URL as it is written if
// there is one; -1 where there is none.
func (m mementos) at(t time.Time, url string) int {
	found := -1
	for i, c := range m {
		if replay.Timestamp(c.Time) == replay.Timestamp(t) && (found < 0 || c.URL == url) {
			found = i
		}
	}
	return found
}

// nearest returns the version nearest to a time; the zero time is now. A server's
// passing trouble counts only where there is nothing else. Those that skip holds do not count.
func (m mementos) nearest(t time.Time, skip map[int]bool) int {
	best := -1
	for i, c := range m {
		switch {
		case skip[i]:
		case best < 0, trouble(m[best]) && !trouble(c):
			best = i
		case trouble(c) && !trouble(m[best]):
		case t.IsZero(), distance(c.Time, t) <= distance(m[best].Time, t):
			best = i
		}
	}
	return best
}

// maxSelfRedirects is how many versions are looked into for one that leads somewhere.
const maxSelfRedirects = 50

// choose returns the version nearest to a time that shows something: one by which the
// server only sent its readers from http to https, or to the name with www, would lead to itself, as
// these count as one page. -1: there is none.
func (s *server) choose(r *http.Request, all mementos, t time.Time) (int, error) {
	skip := make(map[int]bool)
	for range maxSelfRedirects {
		i := all.nearest(t, skip)
		if i < 0 || !redirects(all[i]) {
			return i, nil
		}
		to, err := redirectOf(r, all[i])
		if err != nil {
			return -1, err
		}
		if to == "" || archive.SURT(to) != archive.SURT(all[i].URL) {
			return i, nil
		}
		skip[i] = true
	}
	return -1, nil
}

func redirects(c *serve.Capture) bool { return c.Kind == archive.Response && c.Status/100 == 3 }

// redirectOf returns where a stored redirect leads, absolute; "" where that is no web address.
func redirectOf(r *http.Request, c *serve.Capture) (string, error) {
	answer, err := c.Response(r.Context())
	if err != nil {
		return "", err
	}
	answer.Body.Close()
	return locationOf(c, answer), nil
}

func locationOf(c *serve.Capture, answer *serve.Response) string {
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

func distance(a, b time.Time) time.Duration { return a.Sub(b).Abs() }

func trouble(c *serve.Capture) bool {
	return c.Kind == archive.Response && (c.Status >= 500 || c.Status == http.StatusTooManyRequests || c.Status == http.StatusForbidden)
}

// web serves /web/…: one version of a page, the list of its versions, or the way to
// the version nearest to the time that was asked for.
func (s *server) web(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	address, err := replay.ParseAddress(target(r, replay.Root))
	if err != nil {
		return badAddress(err)
	}
	all, err := s.mementos(r, a, address.URL)
	if err != nil {
		return err
	}
	i := all.at(address.Time, address.URL)
	switch {
	case len(all) == 0:
		return s.noPage(w, r, a, address.URL)
	case address.All:
		return s.versions(w, r, all, address.URL)
	case address.Full && i >= 0 && all[i].URL == address.URL:
		return s.memento(w, r, a, all, i, address.Mode)
	case !address.Full || i < 0 || redirects(all[i]):
		if i, err = s.choose(r, all, address.Time); err != nil {
			return err
		}
	}
	if i < 0 {
		return s.noPage(w, r, a, address.URL)
	}
	s.link(w, r, all, -1, address.URL)
	found(w, s.origin(r)+replay.Path(all[i].Time, address.Mode, all[i].URL))
	return nil
}

// found redirects. Unlike http.Redirect it leaves the slashes of a URL in a path alone.
func found(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "private, no-cache")
	w.WriteHeader(http.StatusFound)
}

// origin is what comes before the path in the service's own URLs: that of its public URL where it has one.
// Else it is the address that the client has connected to, if the request names that one; what other name a
// request gives is the client's to choose, and URLs are then relative (the origin is empty).
func (s *server) origin(r *http.Request) string {
	if public, err := url.Parse(s.Public); err == nil && public.Host != "" {
		return public.Scheme + "://" + public.Host
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !names(r.Host, local.String()) {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// names reports whether a Host header gives the local end of a connection, by number or as localhost.
func names(host, local string) bool {
	if host == local {
		return true
	}
	name, port, err := net.SplitHostPort(host)
	at, err2 := netip.ParseAddrPort(local)
	return err == nil && err2 == nil && name == "localhost" && at.Addr().Unmap().IsLoopback() && port == strconv.Itoa(int(at.Port()))
}

// noPage says that nothing is kept of a page, to people with what there is near it.
func (s *server) noPage(w http.ResponseWriter, r *http.Request, a *account.Account, page string) error {
	if !wantsHTML(r) {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%.300s is not here, or not within this account's scope", page))
	}
	near, err := s.Library.Near(r.Context(), a, page, 20)
	if err != nil {
		return err
	}
	missing := missingPage{screen: s.screen(r, page)}
	for _, u := range near {
		missing.Near = append(missing.Near, place{URL: u, Path: replay.Root + "*/" + u})
	}
	return s.show(w, r, http.StatusNotFound, missingTemplate, missing)
}

// wantsHTML reports whether the client is a browser, or asks as one.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

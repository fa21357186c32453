package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/peer"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/replay"
)

// lostPage says that nothing has the name, and lists similar names.
type lostPage struct {
	webpage.Page
	Query string
	Hosts []link // hosts whose names contain the query
	Most  bool   // there may be more
	Watch string // path of the form for a watch; empty: watches are not possible
	Near  []link
}

var lostTemplate = page("lost")

// mostFound is the most hosts that a search for a part of a name lists.
const mostFound = 100

// find leads from a typed text to a page's versions, or to the page of a host or domain. For a part
// of a name it lists the hosts.
func (f *face) find(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if query == "" {
		return webpage.SeeOther(w, "/browse/")
	}
	name, isPage := asHost(query)
	if isPage {
		target := query
		if !strings.Contains(target, "://") {
			target = "http://" + target
		}
		return webpage.SeeOther(w, replay.VersionsPath(escapeSpaces(target)))
	}
	if name != "" {
		_, err := f.Room.Library.Tree.Stat(r.Context(), a, strings.TrimSuffix(strings.TrimPrefix(browsePath(name), "/browse"), "/"))
		if err == nil {
			return webpage.SeeOther(w, browsePath(name))
		}
		if !errors.Is(err, library.ErrNotFound) {
			return err
		}
	}
	p := lostPage{Page: f.Site.For(r), Query: query}
	if name != "" && f.Room.Watches != nil && a.Covers(name) && peer.IsPublicHost(name) {
		p.Watch = api.PathWatching + "?" + url.Values{"host": {name}}.Encode()
	}
	for _, part := range slices.Compact([]string{strings.ToLower(query), name}) {
		if len(p.Hosts) == 0 && part != "" {
			if err := f.findPart(r, a, part, &p); err != nil {
				return err
			}
		}
	}
	if len(p.Hosts) > 0 {
		return webpage.Show(w, r, http.StatusOK, lostTemplate, p)
	}
	if name != "" {
		near, err := f.Room.Library.Records.Suggest(r.Context(), a, "http://"+name+"/", 20)
		if err != nil {
			return err
		}
		for _, u := range near {
			p.Near = append(p.Near, link{u, replay.VersionsPath(u)})
		}
	}
	return webpage.Show(w, r, http.StatusNotFound, lostTemplate, p)
}

// findPart adds the hosts that the account sees and whose names have the part.
func (f *face) findPart(r *http.Request, a *account.Account, part string, p *lostPage) (err error) {
	f.census.find(r.Context(), part, func(host string) bool {
		if !a.Covers(host) {
			return true
		}
		_, err = f.Room.Library.Tree.Stat(r.Context(), a, "/"+naming.HostPath(host))
		switch {
		case errors.Is(err, library.ErrNotFound):
			err = nil
		case err == nil:
			p.Hosts = append(p.Hosts, link{host, browsePath(host)})
		}
		p.Most = len(p.Hosts) == mostFound
		return err == nil && !p.Most
	})
	return err
}

// asHost returns the host or domain that a text names, without a scheme. isPage says that the text
// names a page instead.
func asHost(text string) (name string, isPage bool) {
	rest := text
	if _, after, ok := strings.Cut(text, "://"); ok {
		rest = after
	}
	name, path, hasPath := strings.Cut(rest, "/")
	if hasPath && path != "" || strings.ContainsAny(rest, "?#") {
		return "", true
	}
	u, err := url.Parse("http://" + strings.ToLower(strings.Trim(name, ". ")))
	if err != nil || u.Host == "" || u.User != nil {
		return "", false
	}
	return u.Host, false
}

// escapeSpaces escapes the spaces of a URL, so that a header can have it.
func escapeSpaces(u string) string {
	var b strings.Builder
	for i := range len(u) {
		if c := u[i]; c <= ' ' || c == 0x7f {
			b.WriteString(url.PathEscape(string(rune(c))))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

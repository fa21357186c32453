package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/replay"
	"sheaf/serve/watch"
)

// watchesPage lists an account's watches, below a form for a new one.
type watchesPage struct {
	webpage.Page
	URL, Host string // target of the form; both empty: there is no form
	Watches   []*watch.Watch
	Mark      template.URL // a bookmark that leads from any page of the web to the form
}

// bookmarklet returns a link for a bookmark. From the page on which it is used, it leads to the
// form for watching or saving that page. Its code contains no user input.
func bookmarklet(base string) template.URL {
	return template.URL("javascript:location.href=" + url.PathEscape(fmt.Sprintf("%q", base+api.PathWatching+"?url=")) + "+encodeURIComponent(location.href)")
}

var watchesTemplate = page("watches")

// watching shows the account's watches. With url or host it also shows the form for a new one.
func (f *face) watching(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	list, err := f.Room.Watches.List(r.Context(), a.Name)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	return webpage.Show(w, r, http.StatusOK, watchesTemplate, watchesPage{f.Site.For(r), q.Get("url"), q.Get("host"), list, bookmarklet(f.commands(r).Base)})
}

// changeWatches begins a watch or ends one.
func (f *face) changeWatches(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := route.Form[watchForm](w, r)
	if err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Act: map[string]audit.Act{"remove": audit.Remove}[in.Act], Object: "watch " + in.Target + in.Watch})
	switch in.Act {
	case "add":
		wish := watch.Wish{Email: in.Email}
		switch in.Kind {
		case watch.Prefix:
			wish.Prefix = in.Target
		case watch.Host:
			wish.Host = in.Target
		default:
			wish.URL = in.Target
		}
		if wish.Email != "" {
			wish.Every = in.Every
		}
		_, err = f.Room.Watches.Add(r.Context(), a, wish)
	case "save":
		_, err = f.Room.Watches.Add(r.Context(), a, watch.Wish{URL: in.Target, Once: true})
	case "remove":
		err = f.Room.Watches.Remove(r.Context(), a.Name, in.Watch)
	}
	if err != nil {
		return httpd.Problem(err)
	}
	return webpage.SeeOther(w, api.PathWatching)
}

// SavedPath returns the path of the page that a watch has had saved.
func (watchesPage) SavedPath(w *watch.Watch) string {
	return replay.Path(w.Saved, "", w.URL)
}

// WatchPath returns the path of a watched page's versions, or of a watched host's page.
func (watchesPage) WatchPath(w *watch.Watch) string {
	if w.Kind == watch.Host {
		return browsePath(w.Host)
	}
	return replay.VersionsPath(w.URL)
}

// NotCollected says why a watch finds nothing for now, or "" if a robot visits its host.
func (p watchesPage) NotCollected(w *watch.Watch) string {
	return map[watch.Collection]string{
		watch.Requested: p.T("Nobody collects this host yet; the service is asked to."),
		watch.Accepted:  p.T("The host will be collected; no robot has it yet."),
		watch.Pending:   p.T("An operator has to decide whether this host is collected."),
		watch.Refused:   p.T("This host is not collected; the watch tells of nothing new."),
	}[w.Collection]
}

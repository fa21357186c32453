package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// pathReplay is where ReplayWeb.page runs, if the operator has given its files.
const pathReplay = "/replay/"

// replayFiles are the two files of ReplayWeb.page. They are under the AGPL: they are
// not part of this program, which only hands them out where an operator has put them.
var replayFiles = [...]string{"ui.js", "sw.js"}

// replayIndex starts ReplayWeb.page, which reads what to show from the address: ?source=/a/<host>.wacz.
const replayIndex = `<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>ReplayWeb.page</title>
<script src="./ui.js"></script></head>
<body style="margin:0"><replay-app-main></replay-app-main></body></html>
`

// replayPolicy is the Content-Security-Policy of ReplayWeb.page's own page: it is nobody else's to frame.
const replayPolicy = "base-uri 'none'; object-src 'none'; frame-ancestors 'self'"

// ReplayOnly keeps the origin on which stored scripts run, https://host, apart from the rest of the
// service: there is ReplayWeb.page, and the archives that it reads. Without an origin it returns
// next.
func ReplayOnly(origin string, next http.Handler) http.Handler {
	at, err := url.Parse(origin)
	if origin == "" || err != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAt(r, at) && !strings.HasPrefix(r.URL.Path, pathReplay) && !strings.HasPrefix(r.URL.Path, "/a/") {
			problem.Write(w, wire.Problem{Status: http.StatusNotFound, Reason: "replay_only", Detail: "at this address there is " + pathReplay + ", and nothing else"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isAt reports whether a request names an origin's host.
func isAt(r *http.Request, origin *url.URL) bool {
	plain := func(host string) string {
		return strings.TrimSuffix(strings.ToLower(host), map[string]string{"http": ":80", "https": ":443"}[origin.Scheme])
	}
	return plain(r.Host) == plain(origin.Host)
}

// registerReplay mounts ReplayWeb.page, or what says that it is not here.
func (s *server) registerReplay(r *mux.Router) error {
	mount := func(path string, h func(http.ResponseWriter, *http.Request, *account.Account) error) {
		r.Handle(path, s.authenticated(h)).Methods(http.MethodGet, http.MethodHead, http.MethodOptions)
	}
	missing := func(detail string) error { return problem.New(http.StatusNotFound, "no_replay", detail) }
	if s.Replay == "" || s.ReplayOrigin == "" {
		why := "ReplayWeb.page is not set up here (setting replay.dir); stored pages can be read at /web/"
		if s.Replay != "" {
			why = "ReplayWeb.page runs stored scripts, and only at an origin of its own, which is not set up here (setting replay.origin); stored pages can be read at /web/"
			s.Log.Warn("ReplayWeb.page is not offered: replay.dir is set, and replay.origin is not", "replay.dir", s.Replay)
		}
		r.PathPrefix(pathReplay).Handler(s.authenticated(func(http.ResponseWriter, *http.Request, *account.Account) error { return missing(why) }))
		return nil
	}
	origin, err := url.Parse(s.ReplayOrigin)
	if err != nil {
		return fmt.Errorf("httpd: replay.origin: %w", err)
	}
	mountAnywhere := mount
	mount = func(path string, h func(http.ResponseWriter, *http.Request, *account.Account) error) {
		mountAnywhere(path, func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			if !isAt(r, origin) {
				return missing("ReplayWeb.page runs stored scripts, and only at " + origin.Scheme + "://" + origin.Host + pathReplay)
			}
			return h(w, r, a)
		})
	}
	for _, name := range replayFiles {
		file := filepath.Join(s.Replay, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("httpd: replay.dir %s: want the files ui.js and sw.js of ReplayWeb.page in it: %s is not there", s.Replay, name)
		}
		mount(pathReplay+name, func(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
			return script(w, r, file)
		})
	}
	mount(pathReplay, func(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Content-Security-Policy", replayPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodHead {
			fmt.Fprint(w, replayIndex)
		}
		return nil
	})
	return nil
}

func script(w http.ResponseWriter, r *http.Request, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

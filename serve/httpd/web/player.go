package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

// files are the two files of ReplayWeb.page. They are under the AGPL, so they are no part of this
// program.
var files = [...]string{"ui.js", "sw.js"}

// index is the page that starts ReplayWeb.page. ReplayWeb.page reads from the URL what to show.
const index = `<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>ReplayWeb.page</title>
<script src="./ui.js"></script></head>
<body style="margin:0"><replay-app-main></replay-app-main></body></html>
`

// indexPolicy is the Content-Security-Policy of index: no other site may frame it.
const indexPolicy = "base-uri 'none'; object-src 'none'; frame-ancestors 'self'"

// Only keeps the player's origin, such as https://replay.example.jp, apart from the rest of the
// service: next gets requests to that host only for the player and for archives. If origin is empty
// or no URL, it returns next.
func Only(origin string, next http.Handler) http.Handler {
	at, err := url.Parse(origin)
	if origin == "" || err != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAt(r, at) && !strings.HasPrefix(r.URL.Path, api.PathReplay) && !strings.HasPrefix(r.URL.Path, api.PathArchives) {
			problem.Write(w, wire.Problem{Status: http.StatusNotFound, Reason: "replay_only", Detail: "at this address there is " + api.PathReplay + ", and nothing else"})
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

// sourceQuery is the query of the player.
type sourceQuery struct {
	Source string `query:"source" doc:"path of a .wacz"`
}

// Register mounts the player with the files in dir at an origin. If one of the two is empty it
// mounts a handler that says that there is no player.
func Register(r *mux.Router, g *guard.Guard, dir, origin string, log *slog.Logger) error {
	missing := func(detail string) error { return problem.New(http.StatusNotFound, "no_replay", detail) }
	if dir == "" || origin == "" {
		why := "ReplayWeb.page is not set up here (setting replay.dir); stored pages can be read at /web/"
		if dir != "" {
			why = "ReplayWeb.page runs stored scripts, and only at an origin of its own, which is not set up here (setting replay.origin); stored pages can be read at /web/"
			log.Warn("ReplayWeb.page is not offered: replay.dir is set, and replay.origin is not", "path", dir)
		}
		r.PathPrefix(api.PathReplay).Handler(g.Consumer(func(http.ResponseWriter, *http.Request, *account.Account) error { return missing(why) }))
		return nil
	}
	at, err := url.Parse(origin)
	if err != nil {
		return fmt.Errorf("httpd: replay.origin: %w", err)
	}
	mount := func(path, contentType string, serveIt func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, g.Consumer(func(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
			if !isAt(r, at) {
				return missing("ReplayWeb.page runs stored scripts, and only at " + at.Scheme + "://" + at.Host + api.PathReplay)
			}
			w.Header().Set("Content-Type", contentType+"; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			return serveIt(w, r)
		})).Methods(guard.Reading()...)
	}
	for _, name := range files {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("httpd: replay.dir %s: want the files ui.js and sw.js of ReplayWeb.page in it: %s is not there", dir, name)
		}
		mount(api.PathReplay+name, "text/javascript", func(w http.ResponseWriter, r *http.Request) error { return script(w, r, file) })
	}
	mount(api.PathReplay, "text/html", func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Security-Policy", indexPolicy)
		if r.Method != http.MethodHead {
			fmt.Fprint(w, index)
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
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

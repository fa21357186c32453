package httpd

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve"
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

// registerReplay mounts ReplayWeb.page, or what says that it is not here.
func (s *server) registerReplay(r *mux.Router) error {
	mount := func(path string, h func(http.ResponseWriter, *http.Request, *serve.Account) error) {
		r.Handle(path, s.authenticated(h)).Methods(http.MethodGet, http.MethodHead, http.MethodOptions)
	}
	if s.Replay == "" {
		mount(pathReplay, func(http.ResponseWriter, *http.Request, *serve.Account) error {
			return problem.New(http.StatusNotFound, "no_replay", "ReplayWeb.page is not set up here (setting replay.dir); stored pages can be read at /web/")
		})
		return nil
	}
	for _, name := range replayFiles {
		file := filepath.Join(s.Replay, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("httpd: replay.dir %s: want the files ui.js and sw.js of ReplayWeb.page in it: %s is not there", s.Replay, name)
		}
		mount(pathReplay+name, func(w http.ResponseWriter, r *http.Request, _ *serve.Account) error {
			return script(w, r, file)
		})
	}
	mount(pathReplay, func(w http.ResponseWriter, r *http.Request, _ *serve.Account) error {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "private, no-cache")
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

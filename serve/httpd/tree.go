package httpd

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/serve"
	"sheaf/serve/account"
)

// tree serves /pub/…: files, and directories as listings.
func (s *server) tree(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	name := "/" + mux.Vars(r)["path"]
	node, err := s.Library.Stat(r.Context(), a, name)
	switch slash := strings.HasSuffix(name, "/"); {
	case err != nil:
		return err
	case node.Dir && !slash:
		to := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
		moved(w, r, to.String())
		return nil
	case node.Dir:
		return s.listing(w, r, a, name)
	case slash:
		return serve.ErrNotFound
	}
	return s.file(w, r, a, name, "")
}

// moved leads to where a directory is.
func moved(w http.ResponseWriter, r *http.Request, to string) {
	guard(w.Header()) // net/http writes a few words of HTML
	http.Redirect(w, r, to, http.StatusMovedPermanently)
}

// currentArchive serves /a/<host>.<form>.
func (s *server) currentArchive(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	file := mux.Vars(r)["file"]
	host, suffix, ok := serve.CutForm(file)
	if !ok {
		return serve.ErrNotFound
	}
	return s.file(w, r, a, treePath(host, "current"+suffix), archive.HostDir(host)+suffix)
}

// archive serves /a/<host>/<edition>.<form>.
func (s *server) archive(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	host, file := mux.Vars(r)["host"], mux.Vars(r)["file"]
	if _, _, ok := serve.CutForm(file); !ok {
		return serve.ErrNotFound
	}
	return s.file(w, r, a, treePath(host, file), archive.HostDir(host)+"-"+file)
}

// treePath is where a host's file lies in the tree. A host that is none leads nowhere.
func treePath(host, file string) string {
	return path.Join("/", archive.HostPath(host), file)
}

// listing writes a directory as it is read from the library. Where that fails
// half-way the connection is cut: a client must not take a part for the whole.
func (s *server) listing(w http.ResponseWriter, r *http.Request, a *account.Account, name string) error {
	begun := false
	begin := func() {
		begun = true
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "private, no-cache")
		guard(h)
		title := html.EscapeString(r.URL.Path)
		fmt.Fprintf(w, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>%s</title></head>\n<body><h1>%s</h1><pre>\n", title, title)
		if name != "/" {
			io.WriteString(w, "<a href=\"../\">../</a>\n")
		}
	}
	for n, err := range s.Library.List(r.Context(), a, name) {
		if err != nil && begun {
			s.Log.ErrorContext(r.Context(), "listing broken off", "path", name, "err", err)
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			return err
		}
		if !begun {
			begin()
		}
		if r.Method == http.MethodHead {
			return nil
		}
		if _, err := io.WriteString(w, row(n)); err != nil {
			return nil // the client has gone
		}
	}
	if !begun {
		begin()
	}
	io.WriteString(w, "</pre></body></html>\n")
	return nil
}

// nameWidth is the width of a listing's first column, in characters.
const nameWidth = 40

func row(n serve.Node) string {
	name, size := n.Name, fmt.Sprint(n.Size)
	if n.Dir {
		name, size = name+"/", "-"
	}
	modified := "-"
	if !n.Modified.IsZero() {
		modified = n.Modified.Format("2006-01-02 15:04:05")
	}
	href := url.URL{Path: name} // String puts "./" before a colon
	pad := strings.Repeat(" ", max(1, nameWidth-len(name)))
	return fmt.Sprintf("<a href=\"%s\">%s</a>%s%-19s %15s\n",
		html.EscapeString(href.String()), html.EscapeString(name), pad, modified, size)
}

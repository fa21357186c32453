// Package files serves the tree of files and the hosts' archives over HTTP:
//
//	/pub/…                                   the tree; directories are listings that wget -r and rclone can walk
//	/a/<host>.<form>                         the host's current archive
//	/a/<host>/<edition>|current|all.<form>   any of its archives
//	/a/<host>/<day>-<day>.<form>             what the editions of these days brought
//
// Archives are files of the tree, with a name that tells their host. <form> is tar.gz, warc.gz,
// links.gz, members.tar.gz, cdxj or wacz.
package files

import (
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/webpage"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/archives"
	"sheaf/serve/content"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/send"
)

// Files serves the files of a library.
type Files struct {
	Library *serve.Library
	Sender  *send.Sender
	Log     *slog.Logger
}

// Register mounts the handlers.
func (f *Files) Register(r *mux.Router, g *guard.Guard) {
	r.HandleFunc(strings.TrimSuffix(api.PathTree, "/"), func(w http.ResponseWriter, r *http.Request) { moved(w, r, api.PathTree) })
	for path, h := range map[string]guard.Handler{
		api.PathTree + "{path:.*}": f.tree, api.PathArchives + "{file}": f.currentArchive, api.PathArchives + "{host}/{file}": f.archive,
	} {
		r.Handle(path, g.Consumer(h, account.ForFiles)).Methods(guard.Reading()...)
	}
}

// tree serves files, and directories as listings.
func (f *Files) tree(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	name := "/" + mux.Vars(r)["path"]
	node, err := f.Library.Tree.Stat(r.Context(), a, name)
	switch slash := strings.HasSuffix(name, "/"); {
	case err != nil:
		return err
	case node.Dir && !slash:
		to := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
		moved(w, r, to.String())
		return nil
	case node.Dir:
		return f.listing(w, r, a, name)
	case slash:
		return content.ErrNotFound
	}
	return f.file(w, r, a, name, "")
}

// moved redirects to a directory.
func moved(w http.ResponseWriter, r *http.Request, to string) {
	webpage.Protect(w.Header()) // net/http writes a few words of HTML
	http.Redirect(w, r, to, http.StatusMovedPermanently)
}

func (f *Files) currentArchive(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	file := mux.Vars(r)["file"]
	host, suffix, ok := archives.CutForm(file)
	if !ok {
		return content.ErrNotFound
	}
	return f.file(w, r, a, treePath(host, "current"+suffix), naming.HostDir(host)+suffix)
}

func (f *Files) archive(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	host, file := mux.Vars(r)["host"], mux.Vars(r)["file"]
	if _, _, ok := archives.CutForm(file); !ok {
		return content.ErrNotFound
	}
	return f.file(w, r, a, treePath(host, file), naming.HostDir(host)+"-"+file)
}

// treePath returns where a host's file lies in the tree. The host may be anything that a client
// sent.
func treePath(host, file string) string { return path.Join("/", naming.HostPath(host), file) }

// file serves one file of the tree. Browsers save it under the name download, if that is not empty.
func (f *Files) file(w http.ResponseWriter, r *http.Request, a *account.Account, name, download string) error {
	if r.Method == http.MethodHead {
		node, err := f.Library.Tree.Stat(r.Context(), a, name)
		if err == nil && node.Dir {
			err = content.ErrIsDirectory
		}
		if err == nil {
			send.Head(w, r, node, download)
		}
		return err
	}
	file, err := f.Library.Tree.Open(r.Context(), a, name)
	if err != nil {
		return err
	}
	defer file.Close()
	f.Sender.File(w, r, a, file, name, download)
	return nil
}

// listing writes a directory while it is read. If reading fails half-way the connection is cut: a
// client must not take a part for the whole.
func (f *Files) listing(w http.ResponseWriter, r *http.Request, a *account.Account, name string) error {
	begun := false
	begin := func() {
		begun = true
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		webpage.Protect(w.Header())
		title := html.EscapeString(r.URL.Path)
		fmt.Fprintf(w, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>%s</title></head>\n<body><h1>%s</h1><pre>\n", title, title)
		if name != "/" {
			io.WriteString(w, "<a href=\"../\">../</a>\n")
		}
	}
	for n, err := range f.Library.Tree.List(r.Context(), a, name) {
		if err != nil && begun {
			f.Log.ErrorContext(r.Context(), "listing broken off", "path", name, "err", err)
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

func row(n content.Node) string {
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

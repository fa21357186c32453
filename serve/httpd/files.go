package httpd

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
	"sheaf/internal/audit"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/reading"
)

// Files serves a library's tree, and its hosts' archives by name.
type Files struct {
	Library *reading.Library
	Sender  *guard.Sender
	Log     *slog.Logger
}

// define defines an operation that answers with a file.
func define(path, summary string, media ...string) route.Op[route.None, route.None] {
	return route.New[route.None, route.None](http.MethodGet, path, route.Account, audit.None, summary).Under("tree").Answering(http.StatusOK, "").Sends(media...).
		Also(http.StatusPartialContent, "", "").Also(http.StatusNotModified, "", "").Also(http.StatusTemporaryRedirect, "", guard.Elsewhere)
}

var (
	atTree = webpage.Lead[route.None](strings.TrimSuffix(api.PathTree, "/"), route.Anybody, http.StatusMovedPermanently, "The tree is at /pub/", "To /pub/").Under("tree")
	inTree = define(api.PathTree+"{path:.*}", "A file or directory of the tree", "application/gzip", "text/html", "text/plain", "application/json", "application/x-ndjson", "application/octet-stream", "application/wacz").
		Saying("By reversed host name: /pub/jp/ac/waseda/www/20261121.tar.gz. Directories are HTML lists. /pub/README tells what is where.").
		Also(http.StatusMovedPermanently, "", "A directory, with the slash that it lacks")
	ofNow   = define(api.PathArchives+"{file}", "A host's archive as of now, by name: /a/www.waseda.ac.jp.tar.gz", archiveTypes...)
	oneFile = define(api.PathArchives+"{host}/{file}", "An archive of a host: /a/www.waseda.ac.jp/20261121.tar.gz, current.warc.gz, all.cdxj", archiveTypes...)

	archiveTypes = []string{"application/gzip", "text/plain", "application/octet-stream", "application/wacz"}
)

// Register mounts the operations. Only the redirect to the tree needs no account.
func (f *Files) Register(r *mux.Router, g *guard.Guard) {
	r.HandleFunc(atTree.Path, func(w http.ResponseWriter, r *http.Request) { moved(w, r, api.PathTree) })
	f.register(g.Consumers(r, g.For(account.ForFiles), nil))
}

func (f *Files) register(mount route.Mount) {
	inTree.Raw(mount, guard.Raw(f.tree))
	ofNow.Raw(mount, guard.Raw(f.currentArchive))
	oneFile.Raw(mount, guard.Raw(f.archive))
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
		return library.ErrNotFound
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
	host, suffix, ok := library.CutForm(file)
	if !ok {
		return library.ErrNotFound
	}
	return f.file(w, r, a, treePath(host, "current"+suffix), naming.HostDir(host)+suffix)
}

func (f *Files) archive(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	host, file := mux.Vars(r)["host"], mux.Vars(r)["file"]
	if _, _, ok := library.CutForm(file); !ok {
		return library.ErrNotFound
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
			err = library.ErrIsDirectory
		}
		if err == nil {
			guard.Head(w, r, node, download)
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

// listing writes a directory while reading it. If reading fails half-way, listing cuts the
// connection: a client must not take a part for the whole.
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

func row(n library.Node) string {
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

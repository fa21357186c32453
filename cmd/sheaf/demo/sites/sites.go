// Package sites serves a small saved web as virtual hosts, as an old web server does: no charset in
// Content-Type, directory indexes, ETags. The web has two days; on the second, some pages have
// changed.
//
// A web is a tree of files: day1/<host>/<path> and, for changed pages, day2/<host>/<path>;
// seeds.txt with the URLs to start from; pages1.txt and pages2.txt with every URL that can be
// reached from them on that day. pack.go makes such a tree from a crawl corpus, and packs it.
package sites

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Unpack returns the files of a packed web: a zip file that stores them as they are, compressed as
// a whole, because many pages have the same frame.
func Unpack(packed []byte) (*zip.Reader, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	plain, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("packed web: %w", err)
	}
	return zip.NewReader(bytes.NewReader(plain), int64(len(plain)))
}

// Web is a saved web. It is immutable and safe for concurrent use if its files are.
type Web struct {
	files fs.FS
	seeds []string
	pages [Days][]string
}

// Days is the number of days on which the web can be seen.
const Days = 2

// Open reads the lists of a web. Other files are read when they are served.
func Open(files fs.FS) (*Web, error) {
	w := &Web{files: files}
	var err error
	if w.seeds, err = w.lines("seeds.txt"); err != nil {
		return nil, err
	}
	for day := range w.pages {
		if w.pages[day], err = w.lines(fmt.Sprintf("pages%d.txt", day+1)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *Web) lines(name string) ([]string, error) {
	f, err := w.files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("saved web: %w", err)
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines, s.Err()
}

// Seeds returns URLs from which every page can be reached, at least one for each host.
func (w *Web) Seeds() []string { return w.seeds }

// Pages returns the URL of every page that can be reached from the seeds on a day, counted from 1.
// Images and style sheets are pages too; redirects and errors are not.
func (w *Web) Pages(day int) []string { return w.pages[day-1] }

// Hosts returns the names of the sites, in the order of the seeds.
func (w *Web) Hosts() []string {
	var hosts []string
	for _, seed := range w.seeds {
		host := strings.TrimPrefix(seed, "http://")
		host, _, _ = strings.Cut(host, "/")
		if len(hosts) == 0 || hosts[len(hosts)-1] != host {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Body returns the body of a host's answer for a path (decoded, absolute) on a day, and the name of
// the file. The error is fs.ErrNotExist if the host has no such path. A directory without its final
// slash is not a path; Handler redirects it.
func (w *Web) Body(day int, host, urlPath string) (body []byte, name string, err error) {
	name = strings.TrimPrefix(path.Clean("/"+urlPath), "/")
	if strings.HasSuffix(urlPath, "/") {
		for _, index := range []string{"index.html", "index.ja.html"} {
			if body, err = w.read(day, host, path.Join(name, index)); err == nil {
				return body, path.Join(name, index), nil
			}
		}
		if body, err = w.listing(host, name); err == nil {
			return body, "index.html", nil
		}
		return nil, "", err
	}
	body, err = w.read(day, host, name)
	return body, name, err
}

func (w *Web) read(day int, host, name string) ([]byte, error) {
	for d := day; d > 0; d-- {
		body, err := fs.ReadFile(w.files, path.Join(fmt.Sprintf("day%d", d), host, name))
		if err == nil {
			return body, nil
		}
	}
	return nil, fmt.Errorf("%s/%s: %w", host, name, fs.ErrNotExist)
}

// listing returns the index of a directory that has no index file. It is the same on both days,
// because the second day only changes files.
func (w *Web) listing(host, dir string) ([]byte, error) {
	entries, err := fs.ReadDir(w.files, path.Join("day1", host, dir))
	if err != nil {
		return nil, fmt.Errorf("%s/%s/: %w", host, dir, fs.ErrNotExist)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<title>Index of /%s</title>\n<h1>Index of /%s</h1>\n<ul>\n", dir, dir)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		fmt.Fprintf(&b, "<li><a href=\"./%s\">%s</a>\n", pathEscape(name), name)
	}
	b.WriteString("</ul>\n")
	return b.Bytes(), nil
}

func pathEscape(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// Handler serves the hosts of a web, by the Host header.
type Handler struct {
	web *Web
	day atomic.Int32
}

// NewHandler returns a handler that shows the first day.
func NewHandler(w *Web) *Handler {
	h := &Handler{web: w}
	h.day.Store(1)
	return h
}

// SetDay sets the day that h shows, counted from 1. It may be called while h serves.
func (h *Handler) SetDay(day int) { h.day.Store(int32(day)) }

// ServeHTTP answers like a file server.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	day := int(h.day.Load())
	host, _, _ := strings.Cut(req.Host, ":")
	body, name, err := h.web.Body(day, host, req.URL.Path)
	if err != nil {
		if _, _, err := h.web.Body(day, host, req.URL.Path+"/"); err == nil {
			http.Redirect(rw, req, req.URL.EscapedPath()+"/", http.StatusMovedPermanently)
			return
		}
		http.NotFound(rw, req)
		return
	}
	rw.Header().Set("Content-Type", ContentType(name))
	rw.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body))[:18]+`"`)
	http.ServeContent(rw, req, "", time.Time{}, strings.NewReader(string(body)))
}

// ContentType returns the Content-Type of a file. It names no charset, as servers of the time of
// these pages did not, so that a robot must detect it.
func ContentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html"
	case ".css":
		return "text/css"
	case ".xml":
		return "application/xml"
	case ".txt", ".jis", "":
		return "text/plain"
	}
	typ, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	return cmp.Or(typ, "application/octet-stream")
}

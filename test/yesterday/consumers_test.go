package yesterday

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"
	"golang.org/x/sync/errgroup"

	"sheaf/internal/testkit"
)

// file is one line of consumers.txt: a file that a consumer gets.
type file struct {
	sha256   string
	size     int64     // -1: may change, because the service compresses the file when it is asked
	modified time.Time // zero: not told
	etag     string    // -: may change with the size
	way      way
	path     string // in the tree, or on the server
}

// way says how a file can be fetched.
type way string

const (
	listed way = "listed" // by FTP and under /pub/ by HTTP, and directories list it
	named  way = "named"  // the same, but only by its name
	byHTTP way = "http"   // by HTTP only; the path is the server's
)

// url returns the path on the HTTP server.
func (f *file) url() string {
	if f.way == byHTTP {
		return f.path
	}
	return "/pub" + f.path
}

func (f file) String() string {
	modified := "-"
	if !f.modified.IsZero() {
		modified = f.modified.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s %d %s %s %s %s", f.sha256, f.size, modified, f.etag, f.way, f.path)
}

func readConsumers(name string) ([]file, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []file
	for line := range strings.Lines(string(data)) {
		w := strings.Fields(line)
		if len(w) != 6 {
			return nil, fmt.Errorf("%s: %d words, want 6: %q", name, len(w), line)
		}
		f := file{sha256: w[0], etag: w[3], way: way(w[4]), path: w[5]}
		if f.size, err = strconv.ParseInt(w[1], 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if w[2] != "-" {
			if f.modified, err = time.Parse(time.RFC3339, w[2]); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// leftOut reports whether a file is not compared. /README is the program's own text. /feed/LATEST
// names the catalog's version, which rises whenever the program merges; the answers have what it
// points at.
func leftOut(name string) bool { return name == "/README" || name == "/feed/LATEST" }

// recompressed reports whether the service compresses a file, or a part of it, when it is asked.
// Another version of the compressor may write other bytes.
func recompressed(name string) bool {
	return path.Base(name) == "ls-lR.gz" || strings.HasPrefix(name, "/feed/") || strings.HasSuffix(name, ".wacz")
}

// essence returns what must never change of a file: all of it, or what is compressed in it.
func essence(name string, data []byte) ([]byte, error) {
	switch {
	case !recompressed(name):
		return data, nil
	case strings.HasSuffix(name, ".wacz"):
		return unzipped(data)
	}
	return inflated(data)
}

func inflated(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// unzipped returns the records, the index and the pages of a WACZ, without the two files that
// contain the sizes of the compressed index.
func unzipped(data []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, f := range z.File {
		if f.Name == "datapackage.json" || f.Name == "indexes/index.idx" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if err == nil && f.Name == "indexes/index.cdx.gz" {
			body, err = inflated(body)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		fmt.Fprintf(&out, "%s %d\n%s\n", f.Name, len(body), body)
	}
	return out.Bytes(), nil
}

// got fills in what was received of a file.
func (f *file) got(data []byte) error {
	text, err := essence(f.path, data)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	f.sha256, f.size = hex.EncodeToString(sum[:]), int64(len(data))
	if recompressed(f.path) {
		f.size, f.etag = -1, "-"
	}
	return nil
}

// fetchHTTP fetches a file by HTTP. ok is false if it is not there.
func (h *installation) fetchHTTP(ctx context.Context, f file) (got file, ok bool, err error) {
	resp, data, err := h.do(ctx, reader, http.MethodGet, f.url(), nil)
	switch {
	case err != nil:
		return f, false, err
	case resp.StatusCode == http.StatusNotFound:
		return f, false, nil
	case resp.StatusCode != http.StatusOK:
		return f, false, fmt.Errorf("%s: %s: %.300s", f.url(), resp.Status, data)
	}
	f.etag, f.modified = resp.Header.Get("ETag"), time.Time{}
	if f.etag == "" {
		f.etag = "-"
	}
	if text := resp.Header.Get("Last-Modified"); text != "" {
		if f.modified, err = http.ParseTime(text); err != nil {
			return f, false, fmt.Errorf("%s: %w", f.url(), err)
		}
	}
	return f, true, f.got(data)
}

// fetchFTP fetches a file by FTP, which has no ETag.
func fetchFTP(conn *ftp.ServerConn, f file) (got file, err error) {
	r, err := conn.Retr(f.path)
	if err != nil {
		return f, err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return f, err
	}
	f.etag = "-"
	if f.modified, err = conn.GetTime(f.path); err != nil {
		return f, err
	}
	return f, f.got(data)
}

// fetchers is how many files are fetched at once by each protocol.
const fetchers = 4

// compare fetches files by both protocols and compares them with what they were.
func (h *installation) compare(when string, want []file) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), testkit.Patience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	differs := func(protocol string, got, want file) {
		if got.String() != want.String() {
			h.Errorf("%s, by %s:\n got %v\nwant %v", when, protocol, got, want)
		}
	}
	for some := range slices.Chunk(want, (len(want)+fetchers-1)/fetchers) {
		g.Go(func() error {
			for _, f := range some {
				got, ok, err := h.fetchHTTP(ctx, f)
				if err != nil {
					return err
				}
				if !ok {
					h.Errorf("%s, by HTTP: %s is not there", when, f.url())
					continue
				}
				differs("HTTP", got, f)
			}
			return nil
		})
		g.Go(func() error {
			return h.overFTP(ctx, reader, func(conn *ftp.ServerConn) error {
				for _, f := range some {
					if f.way == byHTTP {
						continue
					}
					got, err := fetchFTP(conn, f)
					if err != nil {
						h.Errorf("%s, by FTP: %s: %v", when, f.path, err)
						continue
					}
					f.etag = "-"
					differs("FTP", got, f)
				}
				return nil
			})
		})
	}
	testkit.Must(h, g.Wait())
}

func (h *installation) overFTP(ctx context.Context, who string, f func(*ftp.ServerConn) error) error {
	conn, err := ftp.Dial(h.service.At.Download, ftp.DialWithContext(ctx), ftp.DialWithTimeout(testkit.Patience))
	if err != nil {
		return err
	}
	defer conn.Quit()
	if err := conn.Login(who, password(who)); err != nil {
		return err
	}
	return f(conn)
}

// walk returns the files that an account finds by FTP, in the order of the listings, with their
// sizes and times.
func (h *installation) walk(who string) (files []file) {
	h.Helper()
	testkit.Must(h, h.overFTP(h.Context(), who, func(conn *ftp.ServerConn) error {
		var down func(dir string) error
		down = func(dir string) error {
			entries, err := conn.List(dir)
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			for _, e := range entries {
				f := file{path: path.Join(dir, e.Name), size: int64(e.Size), modified: e.Time, way: listed}
				switch {
				case e.Type == ftp.EntryTypeFolder:
					if err := down(f.path); err != nil {
						return err
					}
				case !leftOut(f.path):
					files = append(files, f)
				}
			}
			return nil
		}
		return down("/")
	}))
	return files
}

// sameListing compares what directories list with what they listed.
func (h *installation) sameListing(want []file, changed map[string]bool) {
	h.Helper()
	text := func(files []file) string {
		var lines []string
		for _, f := range files {
			if recompressed(f.path) {
				f.size = -1
			}
			lines = append(lines, fmt.Sprintf("%s, %d bytes of %s\n", f.path, f.size, f.modified.UTC().Format(time.RFC3339)))
		}
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	listings := slices.DeleteFunc(slices.Clone(want), func(f file) bool { return f.way != listed })
	found := slices.DeleteFunc(h.walk(reader), func(f file) bool { return changed[f.path] })
	if got, want := text(found), text(listings); got != want {
		h.Errorf("directories list\n%s\nand listed\n%s", got, want)
	}
}

// readChanged reads which files have changed on purpose since a fixture was written.
func readChanged(name string) (map[string]bool, error) {
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	changed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if path := strings.TrimSpace(line); path != "" && !strings.HasPrefix(path, "#") {
			changed[path] = true
		}
	}
	return changed, nil
}

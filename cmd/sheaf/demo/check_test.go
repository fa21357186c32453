package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/naming"
	"sheaf/internal/testkit"
	"sheaf/serve/client"

	"github.com/jlaffaye/ftp"
)

// consumer fetches archives, each by FTP and by HTTP.
type consumer struct {
	web  *client.Client
	file *ftp.ServerConn
}

// newConsumer logs in by both protocols until the test ends.
func newConsumer(t *testing.T, at Event) *consumer {
	t.Helper()
	to, err := url.Parse(at.HTTP)
	testkit.Must(t, err)
	conn, err := ftp.Dial(at.FTP, ftp.DialWithTimeout(testkit.Patience))
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Quit() })
	testkit.Must(t, conn.Login(at.Account, at.Password))
	return &consumer{&client.Client{URL: to, User: at.Account, Password: at.Password, HTTP: http.DefaultClient}, conn}
}

// checkDay fetches the archive called name of every host, and compares it with the bundled sites,
// byte for byte. The archives must have exactly the pages whose URLs are in want.
func (c *consumer) checkDay(t *testing.T, w *web, day int, name string, want []string) {
	t.Helper()
	byHost := map[string][]string{}
	for _, u := range want {
		parsed, err := url.Parse(u)
		testkit.Must(t, err)
		byHost[parsed.Host] = append(byHost[parsed.Host], u)
	}
	for _, host := range w.Hosts() {
		path := "/" + naming.HostPath(host) + "/" + name
		var byHTTP bytes.Buffer
		if err := c.web.Get(t.Context(), "/pub"+path, &byHTTP); err != nil {
			if len(byHost[host]) > 0 { // else the host had nothing new, so the edition need not name it
				t.Errorf("day %d: %v", day, err)
			}
			continue
		}
		r, err := c.file.Retr(path)
		testkit.Must(t, err)
		byFTP, err := io.ReadAll(r)
		testkit.Must(t, errors.Join(err, r.Close()))
		if !bytes.Equal(byFTP, byHTTP.Bytes()) {
			t.Errorf("day %d: %s is not the same by FTP as by HTTP", day, path)
		}
		if err := compare(w, day, host, byHost[host], unpack(t, byFTP)); err != nil {
			t.Errorf("day %d: %s: %v", day, path, err)
		}
	}
}

// unpack returns the files of a tar.gz by their names in it.
func unpack(t *testing.T, file []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file))
	testkit.Must(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		testkit.Must(t, err)
		files[h.Name], err = io.ReadAll(r)
		testkit.Must(t, err)
	}
}

// compare compares the files of one archive with what the host served.
func compare(w *web, day int, host string, urls []string, got map[string][]byte) error {
	var errs []error
	expected := map[string]bool{}
	for _, u := range urls {
		parsed, err := url.Parse(u)
		if err != nil {
			return err
		}
		body, _, err := w.Body(day, host, parsed.Path)
		if err != nil {
			return err
		}
		name := naming.FileName(host, u)
		expected[name] = true
		switch file, ok := got[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is missing (as %s)", u, name))
		case !bytes.Equal(file, body):
			errs = append(errs, fmt.Errorf("%s differs: %d bytes in the archive, %d served", u, len(file), len(body)))
		}
	}
	for name := range got {
		if !expected[name] && !strings.Contains(name, "/_meta/") {
			errs = append(errs, fmt.Errorf("%s is in the archive, but is not a page of the site", name))
		}
	}
	if n := len(errs); n > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", n-5))
	}
	return errors.Join(errs...)
}

// changed returns the URLs of the pages that are new or different on the second day.
func changed(t *testing.T, w *web) (urls []string) {
	t.Helper()
	for _, u := range w.Pages(2) {
		parsed, err := url.Parse(u)
		testkit.Must(t, err)
		after, _, err := w.Body(2, parsed.Host, parsed.Path)
		testkit.Must(t, err)
		before, _, err := w.Body(1, parsed.Host, parsed.Path)
		if err != nil || !slices.Contains(w.Pages(1), u) || !bytes.Equal(before, after) {
			urls = append(urls, u)
		}
	}
	return urls
}

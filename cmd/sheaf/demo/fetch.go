package demo

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sheaf/serve/client"

	"github.com/jlaffaye/ftp"
)

// credentials are the account of the checks.
type credentials struct{ name, password string }

// consumer fetches and unpacks archives as people do: with curl and tar if they are installed, and
// otherwise with Go's packages.
type consumer struct {
	credentials
	http, ftp string // base URL; host:port
	dir       string // for what is fetched
	curl, tar string // programs; empty if not installed
}

func newConsumer(a credentials, httpURL, ftpAddr, dir string) *consumer {
	c := &consumer{credentials: a, http: httpURL, ftp: ftpAddr, dir: dir}
	c.curl, _ = exec.LookPath("curl")
	c.tar, _ = exec.LookPath("tar")
	return c
}

// tools names what the consumer fetches and unpacks with.
func (c *consumer) tools() string {
	switch {
	case c.curl != "" && c.tar != "":
		return "curl and tar"
	case c.curl != "":
		return "curl"
	case c.tar != "":
		return "tar"
	}
	return "built-in clients"
}

// fetch fetches a file of the tree, such as /jp/example/www/all.tar.gz, by "ftp" or "http", and
// returns the name of its copy.
func (c *consumer) fetch(ctx context.Context, protocol, path string) (file string, err error) {
	file = filepath.Join(c.dir, protocol, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	if c.curl != "" {
		url := c.http + "/pub" + path
		if protocol == "ftp" {
			url = "ftp://" + c.ftp + path
		}
		out, err := exec.CommandContext(ctx, c.curl, "--silent", "--show-error", "--fail", "--max-time", "30",
			"--user", c.name+":"+c.password, "--output", file, url).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("curl %s: %w: %s", url, err, out)
		}
		return file, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	if protocol == "ftp" {
		err = c.fetchFTP(ctx, f, path)
	} else {
		err = c.fetchHTTP(ctx, f, path)
	}
	return file, errors.Join(err, f.Close())
}

func (c *consumer) fetchHTTP(ctx context.Context, w io.Writer, path string) error {
	to, err := url.Parse(c.http)
	if err != nil {
		return err
	}
	web := client.Client{URL: to, User: c.name, Password: c.password, HTTP: http.DefaultClient}
	return web.Get(ctx, "/pub"+path, w)
}

func (c *consumer) fetchFTP(ctx context.Context, w io.Writer, path string) error {
	conn, err := ftp.Dial(c.ftp, ftp.DialWithContext(ctx), ftp.DialWithTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer conn.Quit()
	if err := conn.Login(c.name, c.password); err != nil {
		return err
	}
	r, err := conn.Retr(path)
	if err != nil {
		return fmt.Errorf("ftp %s: %w", path, err)
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

// unpack returns the files of a tar.gz by their names in it.
func (c *consumer) unpack(ctx context.Context, file string) (map[string][]byte, error) {
	if c.tar == "" {
		return unpackBuiltIn(file)
	}
	dir := file + ".d"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, c.tar, "-xzf", file, "-C", dir).CombinedOutput(); err != nil || len(out) > 0 {
		return nil, fmt.Errorf("tar xzf %s: %v: %s", file, err, out)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(p)
		return err
	})
	return files, err
}

func unpackBuiltIn(file string) (map[string][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	files := map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if files[h.Name], err = io.ReadAll(t); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, h.Name, err)
		}
	}
}

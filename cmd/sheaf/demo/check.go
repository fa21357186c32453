package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sheaf/archive/naming"
)

// checkDay fetches the archive called name of every host, by FTP and by HTTP, and compares it with
// the bundled sites, byte for byte. The archives must have exactly the pages whose URLs are in
// want. It returns how many those are.
func (c *consumer) checkDay(ctx context.Context, w *web, day int, name string, want []string) (pages int, err error) {
	byHost := map[string][]string{}
	for _, u := range want {
		parsed, err := url.Parse(u)
		if err != nil {
			return 0, err
		}
		byHost[parsed.Host] = append(byHost[parsed.Host], u)
	}
	for _, host := range w.Hosts() {
		for _, protocol := range []string{"ftp", "http"} {
			file, err := c.fetch(ctx, protocol, "/"+naming.HostPath(host)+"/"+name)
			if err != nil {
				if len(byHost[host]) == 0 {
					continue // the host had nothing new, so the edition need not name it
				}
				return 0, err
			}
			got, err := c.unpack(ctx, file)
			if err != nil {
				return 0, err
			}
			if err := compare(w, day, host, byHost[host], got); err != nil {
				return 0, fmt.Errorf("%s %s: %w", protocol, host, err)
			}
		}
		pages += len(byHost[host])
	}
	return pages, nil
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
func changed(w *web) ([]string, error) {
	var urls []string
	for _, u := range w.Pages(2) {
		parsed, err := url.Parse(u)
		if err != nil {
			return nil, err
		}
		after, _, err := w.Body(2, parsed.Host, parsed.Path)
		if err != nil {
			return nil, err
		}
		before, _, err := w.Body(1, parsed.Host, parsed.Path)
		if err != nil || !slices.Contains(w.Pages(1), u) || !bytes.Equal(before, after) {
			urls = append(urls, u)
		}
	}
	return urls, nil
}

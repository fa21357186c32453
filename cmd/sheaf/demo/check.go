package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sheaf/archive"
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
			file, err := c.fetch(ctx, protocol, "/"+archive.HostPath(host)+"/"+name)
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
		name := archive.FileName(host, u)
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

// checkPages looks at the front page as the reader, follows its links to the home pages of the sites,
// and looks at the board as an operator.
func (d *day) checkPages(ctx context.Context) error {
	reader, operator := d.account, credentials{"demo", d.service.OperatorToken()}
	var homes []string
	for _, host := range d.web.Hosts() {
		homes = append(homes, "/web/http://"+host+"/")
	}
	looks := []look{
		{"/", reader, homes},
		{"/board/", operator, append([]string{"Nothing is wrong.", notJoined, "hosts wait for a decision"}, robots...)},
		{"/board/transfers?by=day", operator, robots},
		{"/board/batches?state=published", operator, robots},
		{"/board/hosts", operator, []string{"accu.org"}},
		{"/board/levelling", operator, robots},
		{"/board/store", operator, []string{"/pub/editions/"}},
	}
	for _, home := range homes {
		looks = append(looks, look{home, reader, []string{"sheaf-archive-banner"}})
	}
	for _, l := range looks {
		if err := l.check(ctx, d.service.Addresses().HTTP); err != nil {
			return err
		}
	}
	return nil
}

// look is one look at a page, which must have all of the words.
type look struct {
	path  string
	as    credentials
	words []string
}

func (l look) check(ctx context.Context, at string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+l.path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/html")
	r.SetBasicAuth(l.as.name, l.as.password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for _, word := range l.words {
		if resp.StatusCode != http.StatusOK || !bytes.Contains(page, []byte(word)) {
			return fmt.Errorf("%s answers %s, and does not show %q", l.path, resp.Status, word)
		}
	}
	return nil
}

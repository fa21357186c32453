package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/preference"
	"sheaf/serve/servetest"
)

// A mirror that honours a preference has nothing of the hosts that ask it now. It deletes what it
// has once a host begins to ask, and fetches all of a host that asks no more.
func TestHonour(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newSite(t)
		dir := t.TempDir()
		night := func(n int, rules map[string]string, hosts ...string) {
			at := day.AddDate(0, 0, n)
			of := records(at, 1, 100, hosts...)
			for host, text := range rules {
				url := "http://" + host + "/robots.txt"
				r := servetest.Page(url, text, at.Add(time.Second))
				r.Preferences = preference.Of(url, r.HTTP, []byte(text))
				of[host] = append(of[host], r)
			}
			s.Publish(at.Format("20060102"), of)
		}
		const no, yes = "User-agent: *\nContent-Usage: train-ai=n\n", "User-agent: *\nAllow: /\n"
		mirror := func(want ...string) Summary {
			t.Helper()
			opt := s.options(scheme, dir)
			opt.Honour = []string{"content-usage:train-ai=n", "license"}
			sum := s.mirror(opt)
			var have []string
			for name := range s.tree(japan, ".tar.gz") {
				name, _, _ = strings.Cut(name, " ")
				if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
					have = append(have, strings.TrimPrefix(name, "/jp/"))
				}
			}
			if slices.Sort(have); !slices.Equal(have, want) {
				t.Fatalf("in hand are %q, want %q", have, want)
			}
			return sum
		}
		night(0, map[string]string{"a.jp": yes, "b.jp": no}, "a.jp", "b.jp", "silent.jp")
		mirror("a/20261101.tar.gz", "silent/20261101.tar.gz")
		night(1, map[string]string{"a.jp": no}, "a.jp", "b.jp") // no robots.txt of b came: it still holds
		mirror("silent/20261101.tar.gz")
		night(2, map[string]string{"b.jp": yes}, "a.jp", "b.jp")
		mirror("b/20261101.tar.gz", "b/20261102.tar.gz", "b/20261103.tar.gz", "silent/20261101.tar.gz")
		night(3, map[string]string{"b.jp": "License: https://b.jp/licence.xml"}, "b.jp")
		mirror("silent/20261101.tar.gz")
		if sum := mirror("silent/20261101.tar.gz"); sum.Fetched+sum.Deleted > 0 {
			t.Errorf("a run without news: %+v", sum)
		}
		s.mirror(s.options(scheme, dir)) // honours nothing
		s.equal(dir, japan)
	})
	s := newSite(t)
	opt := s.options("http", t.TempDir())
	opt.Honour = []string{"content-usag"}
	if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "content-usage") {
		t.Errorf("a name that is none: %v", err)
	}
}

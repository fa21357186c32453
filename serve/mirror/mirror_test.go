package mirror

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// TestMirror lets an archive live, and a mirror follow: it holds what the tree does, byte for byte.
func TestMirror(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newSite(t)
		dir := t.TempDir()
		opt := s.options(scheme, dir)
		if sum := s.mirror(opt); sum != (Summary{}) {
			t.Errorf("of nothing: %+v", sum)
		}
		s.publish(day, 2, 100, "www.waseda.ac.jp", "waseda.ac.jp", "www.keio.ac.jp", "www.waseda.ac.jp:8080", "example.com")
		second := day.AddDate(0, 0, 1)
		s.Publish("20261102", records(second, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp"), records(second, 1, 200, "www.waseda.ac.jp"))
		s.publish(second, 1, 50, "www.waseda.ac.jp")
		if sum := s.mirror(opt); sum.Fetched != 2*(4+2+1) || sum.Deleted != 0 {
			t.Errorf("%+v", sum)
		}
		s.equal(dir, japan)
		if sum := s.mirror(opt); sum.Fetched != 0 || sum.Deleted != 0 {
			t.Errorf("again: %+v", sum)
		}

		keio := catalog.Tombstone{Host: "www.keio.ac.jp"}
		s.takeDown(keio)
		s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp", Edition: "20261102-2"})
		s.takeDown(catalog.Tombstone{Host: "waseda.ac.jp", URLPrefix: "http://waseda.ac.jp/p1"})
		s.publish(day.AddDate(0, 0, 2), 1, 100, "other.jp", "waseda.ac.jp")
		sum := s.mirror(opt)
		if sum.Fetched != 2*(1+2) || sum.Deleted != 2*(2+1) {
			t.Errorf("after take-downs: %+v", sum)
		}
		s.equal(dir, japan)
		if _, err := s.Catalog.Restore(t.Context(), keio); err != nil {
			t.Fatal(err)
		}
		s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp"})
		s.mirror(opt)
		s.equal(dir, japan)

		sums := exec.CommandContext(t.Context(), testkit.Tool(t, "sha256sum"), "-c", "SHA256SUMS")
		sums.Dir = filepath.Join(dir, "jp/ac/keio/www")
		if out, err := sums.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 4 {
			t.Errorf("sha256sum: %v\n%s", err, out)
		}
		late := s.options(scheme, t.TempDir())
		s.mirror(late)
		s.equal(late.Dir, japan)
	})
}

// TestSelection narrows and widens what a mirror is of: what does not belong goes, the rest stays.
func TestSelection(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newSite(t)
		s.publish(day, 1, 50, "www.waseda.ac.jp", "waseda.ac.jp", "wasedax.ac.jp", "www.keio.ac.jp", "other.jp", "www.waseda.ac.jp:8080")
		dir := t.TempDir()
		for _, c := range []struct {
			want           api.Selection
			forms          []string
			same           []string // domains of an account that sees the same
			fetched, freed int64
		}{
			{api.Selection{}, []string{".tar.gz", ".warc.gz"}, []string{"jp"}, 12, 0},
			{api.Selection{Domains: []string{"waseda.ac.jp"}}, []string{".tar.gz"}, []string{"waseda.ac.jp"}, 0, 9},
			{api.Selection{Hosts: []string{"waseda.ac.jp"}, SURT: []string{"jp,ac,k"}}, []string{".tar.gz"}, nil, 1, 2},
			{api.Selection{Domains: []string{"ac.jp"}}, []string{".warc.gz"}, []string{"ac.jp"}, 5, 2},
		} {
			opt := s.options(scheme, dir)
			opt.Selection, opt.Forms = c.want, c.forms
			if sum := s.mirror(opt); sum.Fetched != c.fetched || sum.Deleted != c.freed {
				t.Errorf("%+v of %v: %+v", c.want, c.forms, sum)
			}
			if c.same != nil {
				s.equal(dir, &account.Account{Domains: c.same}, c.forms...)
			}
		}
	})
}

// TestOneMirrorADirectory holds that a second mirror is told that there is a first.
func TestOneMirrorADirectory(t *testing.T) {
	s := newSite(t)
	opt := s.options("http", t.TempDir())
	p, err := openPlace(opt.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "another sheaf mirror is at work") {
		t.Errorf("two at once: %v", err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	s.mirror(opt)
}

// TestTakesOver begins in a directory that another program has mirrored into: what fits is not
// fetched again.
func TestTakesOver(t *testing.T) {
	s := newSite(t)
	s.publish(day, 1, 50, "www.waseda.ac.jp", "www.keio.ac.jp")
	opt := s.options("http", t.TempDir())
	s.mirror(opt)
	if err := os.RemoveAll(filepath.Join(opt.Dir, ownDir)); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(opt.Dir, naming.HostPath("www.keio.ac.jp"), "20261101.tar.gz")
	if err := os.WriteFile(stale, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(stale), manifestFile)); err != nil {
		t.Fatal(err)
	}
	if sum := s.mirror(opt); sum.Fetched != 1 || sum.Deleted != 0 {
		t.Errorf("%+v", sum)
	}
	s.equal(opt.Dir, japan)
}

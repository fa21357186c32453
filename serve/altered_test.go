package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// A MANIFEST has the times that the files themselves have, also after a take-down was lifted and
// the host has what it had before.
func TestManifestHasTheTimesOfFiles(t *testing.T) {
	const host = "www.example.jp"
	s := servetest.New(t, everyone)
	s.Publish("20261121", map[string][]*archive.Record{host: {
		servetest.Page("http://"+host+"/", "top", dayOne), servetest.Page("http://"+host+"/private/", "private", dayOne),
	}})
	check := func(when string) {
		t.Helper()
		manifest := readIfAny(t, s.Library, everyone, "/jp/example/www/"+library.Manifest)
		lines := 0
		for in := bufio.NewScanner(bytes.NewReader(manifest)); in.Scan(); lines++ {
			var line library.ManifestLine
			testkit.Must(t, json.Unmarshal(in.Bytes(), &line))
			n, err := s.Library.Tree.Stat(t.Context(), everyone, "/jp/example/www/"+line.Path)
			testkit.Must(t, err)
			if !line.Modified.Equal(n.Modified) || line.ETag != n.ETag {
				t.Errorf("%s: MANIFEST says that %s is of %s, ETag %s; it is of %s, %s", when, line.Path, line.Modified.Format(time.DateTime), line.ETag, n.Modified.Format(time.DateTime), n.ETag)
			}
		}
		if lines == 0 {
			t.Errorf("%s: MANIFEST is empty", when)
		}
	}
	check("at first")
	stone := catalog.Tombstone{Host: host, URLPrefix: "http://" + host + "/private/", Reason: "asked", By: "op"}
	_, err := s.Catalog.Remove(t.Context(), stone)
	testkit.Must(t, err)
	check("after the take-down")
	_, err = s.Catalog.Restore(t.Context(), stone)
	testkit.Must(t, err)
	check("after the lift")
}

// readIfAny returns what is at a path of the tree, or nil if the account sees nothing there.
func readIfAny(t testing.TB, l *reading.Library, a *account.Account, path string) []byte {
	t.Helper()
	f, err := l.Tree.Open(t.Context(), a, path)
	if errors.Is(err, library.ErrNotFound) {
		return nil
	}
	testkit.Must(t, err)
	defer f.Close()
	return servetest.ReadFile(t, f)
}

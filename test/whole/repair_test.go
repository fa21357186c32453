package whole

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// newCopied returns an archive of some editions, and a copy of its store. Its pages tell of a
// theme.
func newCopied(t *testing.T, theme string) (s *servetest.Site, copied *store.FS, dir string) {
	t.Helper()
	s = servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for day := range 6 {
		hosts := make(map[string][]*archive.Record)
		for h := range 12 {
			host := fmt.Sprintf("www%02d.example.jp", (h+day)%16)
			for p := range 3 {
				url := fmt.Sprintf("http://%s/%d", host, p)
				hosts[host] = append(hosts[host], servetest.Page(url, strings.Repeat(fmt.Sprint(theme, url, day, " "), 200), at.AddDate(0, 0, day)))
			}
		}
		s.Others = map[string]string{"www05.example.jp": "beside " + strings.Repeat("x", 1000)}
		s.Publish(at.AddDate(0, 0, day).Format("20060102"), hosts)
	}
	s.Index()
	dir = t.TempDir()
	copied, err := store.OpenFS(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { copied.Close() })
	_, err = upkeep.Copy(t.Context(), copied, s.Store, true)
	testkit.Must(t, err)
	if a, b := contents(t, s.Dir), contents(t, dir); !maps.EqualFunc(a, b, bytes.Equal) {
		t.Fatalf("the copy has %d objects, the store %d", len(b), len(a))
	}
	return s, copied, dir
}

// contents returns the objects in the directory of a store.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	testkit.Must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if strings.HasPrefix(key, ".") || err != nil {
			return err
		}
		all[key], err = os.ReadFile(path)
		return err
	}))
	return all
}

// harm flips a bit of an object, cuts it off, or deletes it.
func harm(t *testing.T, random *rand.Rand, dir, key string) {
	t.Helper()
	path := filepath.Join(dir, key)
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(path))
	switch random.IntN(3) {
	case 0:
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
	case 1:
		data = data[:random.IntN(len(data))]
	default:
		return
	}
	testkit.Must(t, os.WriteFile(path, data, 0o600))
}

// Whatever is flipped, cut off or deleted in the store, all of it is found and comes back from the
// copy, to the last byte; also the newest version of the catalog. Only the states of the index of
// URLs are left alone: a store without one is whole, and a service makes it anew.
func TestRepair(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, copied, _ := newCopied(t, "")
	want := contents(t, s.Dir)
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return strings.HasPrefix(key, "urls/state/") })
	rounds := testkit.Size(8, 350) // of 3 damages each
	for round := range rounds {
		random := rand.New(rand.NewPCG(uint64(round), 1))
		harmed := make(map[string]bool)
		for range 1 + random.IntN(5) {
			harmed[keys[random.IntN(len(keys))]] = true
		}
		for _, key := range slices.Sorted(maps.Keys(harmed)) {
			harm(t, random, s.Dir, key)
		}
		done, err := upkeep.Repair(t.Context(), s.Store, copied)
		testkit.Must(t, err)
		got := contents(t, s.Dir)
		for _, key := range keys {
			if !bytes.Equal(got[key], want[key]) {
				t.Errorf("round %d: %s has %d bytes and not the %d as before; %+v", round, key, len(got[key]), len(want[key]), done)
			}
		}
		if !done.Report.OK() || len(done.Lost) > 0 || len(done.Healed) > len(harmed) {
			t.Errorf("round %d: harmed %v, %+v, %v", round, harmed, done, done.Report.Problems)
		}
		if t.Failed() {
			return
		}
	}
}

// What is damaged in the copy, too, is told of and left alone; the rest is healed. A copy of
// another archive is refused. From a copy that is behind comes what it has.
func TestRepairFromDamagedCopies(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, copied, dir := newCopied(t, "")
	keys := slices.Sorted(maps.Keys(contents(t, s.Dir)))
	segments := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, "segments/") })
	random := rand.New(rand.NewPCG(1, 2))
	both, one := segments[0], segments[1]
	harm(t, random, dir, both)
	report, err := upkeep.Fsck(t.Context(), copied, true)
	testkit.Must(t, err)
	if report.OK() {
		t.Error("nothing is wrong with a damaged copy")
	}
	harm(t, random, s.Dir, both)
	harm(t, random, s.Dir, one)

	_, otherCopy, _ := newCopied(t, "others")
	before := contents(t, s.Dir)
	if done, err := upkeep.Repair(t.Context(), s.Store, otherCopy); err == nil || !strings.Contains(err.Error(), "not of this store") {
		t.Errorf("from another archive: %+v, %v", done, err)
	}
	if !maps.EqualFunc(before, contents(t, s.Dir), bytes.Equal) {
		t.Error("a copy of another archive has changed the store")
	}

	done, err := upkeep.Repair(t.Context(), s.Store, copied)
	testkit.Must(t, err)
	if !slices.Equal(done.Healed, []string{one}) || !slices.Equal(done.Lost, []string{both}) || done.Report.OK() {
		t.Errorf("%+v, %v", done, done.Report.Problems)
	}

	s.Publish("20261201", map[string][]*archive.Record{"new.example.jp": {servetest.Page("http://new.example.jp/", "new", time.Now())}})
	harm(t, random, s.Dir, segments[2])
	if done, err := upkeep.Repair(t.Context(), s.Store, copied); err != nil || !slices.Equal(done.Healed, segments[2:3]) {
		t.Errorf("from a copy that is behind: %+v, %v", done, err)
	}
}

// A copy is brought up to date at the cost of what is new. What is deleted from the store goes from
// the copy when that is asked for, and never if the store has lost something.
func TestCopyIsPruned(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, copied, dir := newCopied(t, "")

	// What was cut off in the store does not get into the copy.
	const cut = "segments/jp/example/www05/r1-20261125T000000Z-6.tar.gz"
	whole := contents(t, dir)[cut]
	testkit.Must(t, os.Truncate(filepath.Join(s.Dir, cut), int64(len(whole)-1)))
	if _, err := upkeep.Copy(t.Context(), copied, s.Store, true); err == nil || !strings.Contains(err.Error(), "1 objects have another size in the copy, first "+cut) {
		t.Error(err)
	}
	if _, err := upkeep.Repair(t.Context(), s.Store, copied); err != nil || !bytes.Equal(contents(t, s.Dir)[cut], whole) {
		t.Error(err)
	}

	before := len(contents(t, s.Dir))
	s.Publish("20261201", map[string][]*archive.Record{"new.example.jp": {servetest.Page("http://new.example.jp/", "new", time.Now())}})
	done, err := upkeep.Copy(t.Context(), copied, s.Store, false)
	testkit.Must(t, err)
	if all := len(contents(t, s.Dir)); done.Present != int64(before) || done.Objects != int64(all-before) || done.Deleted != 0 {
		t.Errorf("%+v of %d objects, of which %d were there", done, all, before)
	}
	report, err := upkeep.Fsck(t.Context(), copied, true)
	testkit.Must(t, err)
	if !report.OK() {
		t.Error(report.Problems)
	}
	_, err = s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www03.example.jp"})
	testkit.Must(t, err)
	gone := ""
	for key := range contents(t, s.Dir) {
		if strings.HasPrefix(key, "segments/jp/example/www03/") {
			gone = key
			testkit.Must(t, s.Store.Delete(t.Context(), key)) // as collection does
		}
	}
	lost := ""
	for key := range contents(t, s.Dir) {
		if strings.HasPrefix(key, "segments/jp/example/www04/") {
			lost = key
		}
	}
	data, err := store.ReadAll(context.Background(), s.Store, lost, 0, -1)
	testkit.Must(t, err)
	testkit.Must(t, s.Store.Delete(t.Context(), lost))
	if _, err := upkeep.Copy(t.Context(), copied, s.Store, true); err == nil || !strings.Contains(err.Error(), "nothing is deleted from the copy") {
		t.Errorf("a store that has lost %s: %v", lost, err)
	}
	if all := contents(t, dir); all[lost] == nil || all[gone] == nil {
		t.Errorf("the copy has %d objects and not %s or %s", len(all), lost, gone)
	}
	testkit.Must(t, s.Store.Put(t.Context(), lost, bytes.NewReader(data), int64(len(data))))
	_, err = upkeep.Copy(t.Context(), copied, s.Store, true)
	testkit.Must(t, err)
	if a, b := contents(t, s.Dir), contents(t, dir); !maps.EqualFunc(a, b, bytes.Equal) {
		t.Errorf("the copy has %d objects, the store %d", len(b), len(a))
	}
}

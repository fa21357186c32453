package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/stream"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

// Every archive leaves by way of the local files that it is put together of, however the
// store is wrapped, and by the store where that must see every read; and the extents of
// any range are what is read of it.
func TestExtentsAreWhatIsRead(t *testing.T) {
	testkit.Slow(t)
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for day := range 3 {
		var captures []*archive.Record
		for n := range 12 {
			url := fmt.Sprintf("http://www.waseda.ac.jp/%d", n%(6+day))
			size := []int{40, 3000, 300_000, 20_000}[(n+day)%4]
			captures = append(captures, servetest.Page(url, noise(size, day*12+n), at.AddDate(0, 0, day).Add(time.Duration(n)*time.Second)))
		}
		s.Publish(fmt.Sprintf("2026112%d", day), map[string][]*archive.Record{"www.waseda.ac.jp": captures})
	}
	account := s.Account("alice", "always", "jp")
	wrapped := store.NewRetry(store.NewMeter(store.NewLimit(s.Store, 2, 2)), store.RetryOptions{})
	watched := &storetest.Fault{Store: s.Store, Decide: func(_, _ string) storetest.Outcome { return storetest.Works }}
	for name, c := range map[string]struct {
		store store.Store
		local bool
	}{"bare": {s.Store, true}, "wrapped": {wrapped, true}, "watched": {store.NewMeter(watched), false}} {
		lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: c.store})
		if err != nil {
			t.Fatal(err)
		}
		for _, base := range []string{"20261120", "20261120-20261121", "all", "current"} {
			for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".wacz"} {
				f, err := lib.Tree.Open(t.Context(), account, "/jp/ac/waseda/www/"+base+form)
				if err != nil {
					t.Fatal(err)
				}
				checkExtents(t, name+" "+base+form, f, c.local)
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		checkGathered(t, name, lib, account, c.local)
	}
}

// checkGathered does the same to what is gathered of a host's newest records.
func checkGathered(t *testing.T, name string, lib *reading.Library, account *account.Account, local bool) {
	t.Helper()
	builder, err := lib.Results.NewBundle(t.Context(), account, ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	found, err := lib.Records.Search(t.Context(), account, records.Search{
		Targets: []library.Target{{Match: library.MatchHost, Host: "www.waseda.ac.jp"}},
		From:    time.Date(2026, 11, 20, 3, 0, 5, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	if err := found.Each(t.Context(), func(c *records.Capture, _ records.Position) error { return builder.Add(t.Context(), c) }); err != nil {
		t.Fatal(err)
	}
	bundle, err := builder.Finish(t.Context())
	if err != nil || bundle.Records() == 0 {
		t.Fatalf("%d records, %v", bundle.Records(), err)
	}
	f, err := lib.Results.Open(t.Context(), account, bundle, "pages.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	checkExtents(t, name+" gathered", f, local)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// checkExtents compares ranges of a file, as they are sent, with the same read.
func checkExtents(t *testing.T, name string, f *library.File, local bool) {
	t.Helper()
	read := func(off, n int64) []byte {
		r, err := f.OpenRange(t.Context(), off, n)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := read(0, f.Size)
	random := rand.New(rand.NewPCG(uint64(f.Size), 1))
	for i := range 60 {
		off := random.Int64N(f.Size + 1)
		n := random.Int64N(min(f.Size-off, 1<<random.IntN(22)) + 1)
		if i == 0 {
			off, n = 0, f.Size
		}
		from, err := f.Extents(off, n)
		if err != nil || (from != nil) != local {
			t.Fatalf("%s: extents %v, %v", name, from, err)
		}
		if from == nil {
			return
		}
		var got collector
		sent, err := stream.Send(t.Context(), &got, from, func(_ context.Context, n int64) (int64, error) { return min(n, 50_000), nil })
		if err := errors.Join(err, from.Close()); err != nil || sent != n || !bytes.Equal(got.Bytes(), whole[off:off+n]) {
			t.Fatalf("%s: %d bytes from %d are not what is read: %d sent, %v", name, n, off, sent, err)
		}
		if want := f.Size / 2; i == 0 && got.files < want {
			t.Errorf("%s: of %d bytes only %d came from files", name, f.Size, got.files)
		}
	}
}

// collector takes what is sent, and counts what came from files.
type collector struct {
	bytes.Buffer
	files int64
}

func (c *collector) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.Buffer.ReadFrom(r)
	c.files += n
	return n, err
}

// noise is text that deflate leaves half of.
func noise(n, seed int) string {
	r, b := rand.New(rand.NewPCG(uint64(seed), 7)), make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

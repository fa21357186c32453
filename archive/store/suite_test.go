package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// testStore tests that a store keeps the promises of store.Store. Every store and every wrapper
// must pass it. Each call of open must return a new, empty store.
func testStore(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"PutOpen", putOpen},
		{"PutIfAbsent", putIfAbsent},
		{"PutRace", putRace},
		{"PutConcurrent", putConcurrent},
		{"PutWrongSize", putWrongSize},
		{"PutFailingReader", putFailingReader},
		{"PutCancelled", putCancelled},
		{"Ranges", ranges},
		{"Absent", absent},
		{"BadKeys", badKeys},
		{"Delete", deletes},
		{"DeleteWhileOpen", deleteWhileOpen},
		{"ListOrder", listOrder},
		{"ListPages", listPages},
		{"ListStops", listStops},
		{"Source", source},
		{"Presign", presign},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func put(t *testing.T, s store.Store, key string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s store.Store, key string) []byte {
	t.Helper()
	return getRange(t, s, key, 0, -1)
}

func getRange(t *testing.T, s store.Store, key string, off, n int64) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), key, off, n)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func wantAbsent(t *testing.T, s store.Store, key string) {
	t.Helper()
	_, err := s.Stat(t.Context(), key)
	wantError(t, "stat "+key, err, store.ErrNotExist)
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Key == key {
			t.Errorf("%s is listed", key)
		}
	}
}

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data) // never fails
	return data
}

func putOpen(t *testing.T, s store.Store) {
	before := time.Now().Add(-time.Minute)
	for _, n := range []int{0, 1, 4095, 1 << 20} {
		key, data := fmt.Sprintf("a/b/%d.bin", n), random(n)
		put(t, s, key, data)
		if !bytes.Equal(get(t, s, key), data) {
			t.Errorf("%s: the stored bytes differ from what was put", key)
		}
		info, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != key || info.Size != int64(n) || info.Modified.Before(before) {
			t.Errorf("stat %s: %+v", key, info)
		}
	}
}

func putIfAbsent(t *testing.T, s store.Store) {
	put(t, s, "k", []byte("first"))
	err := s.Put(t.Context(), "k", strings.NewReader("other"), 5)
	wantError(t, "second put", err, store.ErrExists)
	if got := get(t, s, "k"); string(got) != "first" {
		t.Errorf("after a second put: %q", got)
	}
}

// putRace lets many writers put one key at once: one must win, and its bytes must be stored.
func putRace(t *testing.T, s store.Store) {
	const writers = 16
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		won := make(chan byte, writers)
		var wg sync.WaitGroup
		for w := range byte(writers) {
			wg.Go(func() {
				data := bytes.Repeat([]byte{w}, 10000)
				// Read one byte at a time at the end, so that the writers overlap.
				r := io.MultiReader(bytes.NewReader(data[:9990]), iotest.OneByteReader(bytes.NewReader(data[9990:])))
				switch err := s.Put(t.Context(), key, r, int64(len(data))); {
				case err == nil:
					won <- w
				case !errors.Is(err, store.ErrExists):
					t.Errorf("writer %d: %v", w, err)
				}
			})
		}
		wg.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%s: %d writers won, want one", key, len(won))
		}
		if got := get(t, s, key); !bytes.Equal(got, bytes.Repeat([]byte{<-won}, 10000)) {
			t.Errorf("%s does not hold what the winner put", key)
		}
	}
}

// putConcurrent puts many keys at once, in directories that do not exist yet.
func putConcurrent(t *testing.T, s store.Store) {
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			data := random(i * 100)
			key := fmt.Sprintf("c/%d/%d/x", i%4, i)
			if err := s.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 64 {
		if got := get(t, s, fmt.Sprintf("c/%d/%d/x", i%4, i)); !bytes.Equal(got, random(i*100)) {
			t.Errorf("object %d: the stored bytes differ from what was put", i)
		}
	}
}

func putWrongSize(t *testing.T, s store.Store) {
	for name, data := range map[string]string{"empty": "", "short": "123", "long": "12345", "muchlonger": strings.Repeat("1", 1<<20)} {
		err := s.Put(t.Context(), name, strings.NewReader(data), 4)
		wantError(t, name, err, store.ErrSize)
		wantAbsent(t, s, name)
		put(t, s, name, []byte("1234")) // the key is still free
	}
	wantError(t, "negative", s.Put(t.Context(), "negative", strings.NewReader(""), -1), store.ErrSize)
	wantAbsent(t, s, "negative")
}

func putFailingReader(t *testing.T, s store.Store) {
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 100000} {
		r := io.MultiReader(bytes.NewReader(random(n)), iotest.ErrReader(broken))
		wantError(t, "put", s.Put(t.Context(), "k", r, int64(n)+1), broken)
		wantAbsent(t, s, "k")
	}
}

func putCancelled(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(random(100)) // the reader may be gone
		cancel()
		_, _ = w.Write(random(100))
		_ = w.Close()
	}()
	err := s.Put(ctx, "k", r, 200)
	_ = r.Close()
	wantError(t, "put", err, context.Canceled)
	wantAbsent(t, s, "k")
}

func ranges(t *testing.T, s store.Store) {
	data := random(1000)
	put(t, s, "k", data)
	for _, r := range []struct{ off, n, end int64 }{
		{0, 1000, 1000}, {0, -1, 1000}, {0, 0, 0}, {0, 1, 1}, {999, 1, 1000}, {999, -1, 1000},
		{1000, 0, 1000}, {1000, -1, 1000}, {123, 456, 579}, {500, -1, 1000},
	} {
		if got := getRange(t, s, "k", r.off, r.n); !bytes.Equal(got, data[r.off:r.end]) {
			t.Errorf("range %d+%d: wrong bytes", r.off, r.n)
		}
	}
	for _, r := range []struct{ off, n int64 }{{-1, 1}, {-1, -1}, {0, 1001}, {1000, 1}, {1001, 0}, {1001, -1}, {1 << 62, 1 << 62}} {
		got, err := s.Open(t.Context(), "k", r.off, r.n)
		wantError(t, fmt.Sprintf("range %d+%d", r.off, r.n), err, store.ErrRange)
		if err == nil {
			_ = got.Close()
		}
	}
}

func absent(t *testing.T, s store.Store) {
	put(t, s, "a/b", nil)
	for _, key := range []string{"x", "a", "a/x", "a/b/c", "a/b/c/d"} {
		wantAbsent(t, s, key)
		_, err := s.Open(t.Context(), key, 0, -1)
		wantError(t, "open "+key, err, store.ErrNotExist)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	if got := get(t, s, "a/b"); len(got) != 0 {
		t.Errorf("a/b: %q", got)
	}
}

func badKeys(t *testing.T, s store.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../../b", "a/./b", ".hidden", "a/.tmp",
		"a b", "a\nb", "a\x00b", "a\\b", "a*", "a?", "a|b", "é", "a\x7f", strings.Repeat("a", 256),
		strings.Repeat("a/", 600) + "a",
	} {
		wantError(t, fmt.Sprintf("put %.20q", key), s.Put(t.Context(), key, strings.NewReader(""), 0), store.ErrKey)
		_, err := s.Open(t.Context(), key, 0, -1)
		wantError(t, fmt.Sprintf("open %.20q", key), err, store.ErrKey)
		_, err = s.Stat(t.Context(), key)
		wantError(t, fmt.Sprintf("stat %.20q", key), err, store.ErrKey)
		wantError(t, fmt.Sprintf("delete %.20q", key), s.Delete(t.Context(), key), store.ErrKey)
	}
	for _, key := range []string{"a", "A", "a.b-c_d/e,f:8080", "a[::1]/b=c+d@e", strings.Repeat("n", 255), strings.Repeat(strings.Repeat("d", 127)+"/", 7) + strings.Repeat("k", 128)} {
		put(t, s, key, []byte(key))
	}
}

func deletes(t *testing.T, s store.Store) {
	for range 2 {
		put(t, s, "d/k", []byte("data"))
		for range 2 {
			if err := s.Delete(t.Context(), "d/k"); err != nil {
				t.Fatal(err)
			}
			wantAbsent(t, s, "d/k")
		}
	}
}

func deleteWhileOpen(t *testing.T, s store.Store) {
	data := random(1 << 20)
	put(t, s, "k", data)
	r, err := s.Open(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, data) {
		t.Error("a reader of a deleted object ended early or gave other bytes, without an error")
	}
	_ = r.Close()
}

// tree puts keys whose byte order differs from the order of walking directories by name, and
// returns them sorted.
func tree(t *testing.T, s store.Store) []string {
	keys := []string{"a-b", "a/b", "a/b-c", "a/b0", "a/bc/d", "a/bc-/d", "a/bc.d", "a0", "ab", "b/1", "b/10", "b/2", "B/1", "zz/y/x"}
	for _, key := range keys {
		put(t, s, key, []byte(key))
	}
	slices.Sort(keys)
	return keys
}

func list(t *testing.T, s store.Store, prefix, after string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Size != int64(len(info.Key)) {
			t.Errorf("list %s: size %d", info.Key, info.Size)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func listOrder(t *testing.T, s store.Store) {
	if got := list(t, s, "", ""); len(got) != 0 {
		t.Errorf("an empty store lists %q, want nothing", got)
	}
	keys := tree(t, s)
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/bc", "a/bc/", "a/bc/d", "a/bc/d/", "b/1", "x", "zz/y/x", "zz/y/xx"} {
		for _, after := range append([]string{"", "a", "a/", "a/a", "a/bb", "zzz"}, keys...) {
			want := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasPrefix(k, prefix) || k <= after })
			if got := list(t, s, prefix, after); !slices.Equal(got, want) {
				t.Errorf("list %q after %q: %q, want %q", prefix, after, got, want)
			}
		}
	}
}

// listPages lists page by page, each page from the end of the page before.
func listPages(t *testing.T, s store.Store) {
	keys := tree(t, s)
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page := list(t, s, "", after)
		if len(page) == 0 {
			break
		}
		got = append(got, page[:min(2, len(page))]...)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("pages: %q, want %q", got, keys)
	}
}

func listStops(t *testing.T, s store.Store) {
	tree(t, s)
	n := 0
	for range s.List(t.Context(), "", "") {
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, last = range s.List(ctx, "", "") {
	}
	wantError(t, "list", last, context.Canceled)
}

func source(t *testing.T, s store.Store) {
	put(t, s, "k", []byte("0123456789"))
	r, err := store.Source(s, "k", 4).OpenRange(t.Context(), 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(got) != "567" {
		t.Errorf("range of a source: %q, %v", got, err)
	}
	_, err = store.Source(s, "k", 4).OpenRange(t.Context(), -1, 3)
	wantError(t, "range before a source's base", err, store.ErrRange)
}

// presign tests a store that is a Presigner.
func presign(t *testing.T, s store.Store) {
	p, ok := store.AsPresigner(s)
	if !ok {
		t.Skip("this store gives no URLs of its objects")
	}
	data := random(1 << 20)
	put(t, s, "a/b+c.bin", data)
	put(t, s, "a/other.bin", []byte("not for this client"))
	u, err := p.Presign(t.Context(), "a/b+c.bin", store.PresignOptions{Expires: time.Minute, Type: "application/gzip", Disposition: `attachment; filename="a b.gz"`})
	testkit.Must(t, err)
	header, body := fetchURL(t, u, "", http.StatusOK)
	if !bytes.Equal(body, data) {
		t.Errorf("by its URL the object has %d bytes, and other ones than the %d stored", len(body), len(data))
	}
	if header.Get("Content-Type") != "application/gzip" || header.Get("Content-Disposition") != `attachment; filename="a b.gz"` {
		t.Errorf("the answer's header is %v", header)
	}
	if _, part := fetchURL(t, u, "bytes=1000-1999", http.StatusPartialContent); !bytes.Equal(part, data[1000:2000]) {
		t.Error("a range by the URL has other bytes than the object")
	}
	other := *u
	other.Path = u.Path[:len(u.Path)-len("b+c.bin")] + "other.bin"
	other.RawPath = ""
	fetchURL(t, &other, "", http.StatusForbidden)
	if _, err := p.Presign(t.Context(), "../a", store.PresignOptions{Expires: time.Minute}); !errors.Is(err, store.ErrKey) {
		t.Errorf("a URL of a bad key: %v", err)
	}
	if testing.Short() {
		return // the rest waits for a second to pass
	}
	short, err := p.Presign(t.Context(), "a/b+c.bin", store.PresignOptions{Expires: time.Second})
	testkit.Must(t, err)
	testkit.Eventually(t, "the URL expires", func() error {
		resp, err := http.Get(short.String())
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
}

// fetchURL reads a URL as a client without credentials does, and checks the answer's status.
func fetchURL(t *testing.T, u *url.URL, span string, want int) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	testkit.Must(t, err)
	if span != "" {
		req.Header.Set("Range", span)
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != want {
		t.Errorf("GET of %s, range %q: %s %.300s", u.Path, span, resp.Status, body)
	}
	return resp.Header, body
}

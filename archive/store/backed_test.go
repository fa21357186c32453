package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

// backed returns a store in one directory with its copy in another, both of which are empty.
func backed(t *testing.T, under func(store.Store) store.Store) (s store.Store, dir, second string) {
	t.Helper()
	dir, second = t.TempDir(), t.TempDir()
	s, _ = store.NewBacked(under(openFS(t, dir)), func(context.Context) (store.Store, error) { return openFS(t, second), nil }, slog.New(slog.DiscardHandler))
	return s, dir, second
}

func itself(s store.Store) store.Store { return s }

func TestBacked(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store {
		s, _, _ := backed(t, itself)
		return s
	})
}

// Over a service a Backed gives the service's URLs, but of no object that comes from the copy.
func TestBackedS3(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	g := storetest.StartVersity(t)
	over := func(t *testing.T) (store.Store, *store.Backed) {
		second := openFS(t, t.TempDir())
		return store.NewBacked(openS3(t, g.Options(t)), func(context.Context) (store.Store, error) { return second, nil }, slog.New(slog.DiscardHandler))
	}
	testStore(t, func(t *testing.T) store.Store {
		s, _ := over(t)
		return s
	})
	s, b := over(t)
	urls, ok := store.AsPresigner(s)
	if !ok {
		t.Fatal("it gives no URLs")
	}
	b.Doubt("damaged")
	for key, want := range map[string]bool{"damaged": false, "right": true} {
		if _, err := urls.Presign(t.Context(), key, store.PresignOptions{Expires: time.Minute}); (err == nil) != want {
			t.Errorf("URL of %s: %v", key, err)
		}
	}
}

// readFrom reads an object from an offset on, also by its file where there is one.
func readFrom(t *testing.T, s store.Store, key string, off int64) (string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), key, off, -1)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(r)
	testkit.Must(t, r.Close())
	if local, ok := store.AsLocal(s); ok && err == nil {
		f, err := local.OpenFile(key)
		testkit.Must(t, err)
		defer f.Close()
		all, err := io.ReadAll(f)
		testkit.Must(t, err)
		if string(all[off:]) != string(got) {
			t.Errorf("the file of %s has %d bytes, others than are read", key, len(all))
		}
	}
	return string(got), err
}

// What the store does not give comes from the copy, from the byte at which the store failed.
func TestBackedReadsTheCopy(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	faults := map[string]func(t *testing.T, file string, s store.Store) store.Store{
		"missing": func(t *testing.T, file string, s store.Store) store.Store {
			testkit.Must(t, os.Remove(file))
			return s
		},
		"doubted": func(t *testing.T, file string, s store.Store) store.Store {
			testkit.Must(t, os.WriteFile(file, []byte(strings.ToUpper(strings.Repeat("x", len(text)))), 0o644))
			if doubter := s.(interface{ Doubt(string) bool }); !doubter.Doubt("a/b") || doubter.Doubt("a/b") {
				t.Error("a first doubt is no reason to read again, or a second one is")
			}
			return s
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			s, dir, second := backed(t, itself)
			testkit.Must(t, s.Put(t.Context(), "a/b", strings.NewReader(text), int64(len(text))))
			testkit.Must(t, os.CopyFS(second, os.DirFS(dir)))
			s = fault(t, filepath.Join(dir, "a", "b"), s)
			for _, off := range []int64{0, 7, 100_001, int64(len(text))} {
				if got, err := readFrom(t, s, "a/b", off); err != nil || got != text[off:] {
					t.Errorf("from %d: %d bytes, %v", off, len(got), err)
				}
			}
			if _, err := s.Open(t.Context(), "a/c", 0, -1); !errors.Is(err, store.ErrNotExist) {
				t.Errorf("an object that neither has: %v", err)
			}
			if _, err := s.Open(t.Context(), "a/b", int64(len(text))+1, 1); !errors.Is(err, store.ErrRange) {
				t.Errorf("a range that neither has: %v", err)
			}
		})
	}
	for name, outcome := range map[string]storetest.Outcome{"fails": storetest.Fails, "breaks off": storetest.Truncates} {
		t.Run(name, func(t *testing.T) {
			works := func(_, _ string) storetest.Outcome { return storetest.Works }
			s, dir, second := backed(t, func(s store.Store) store.Store {
				return &storetest.Fault{Store: s, Decide: works, DecideRead: func(op, _ string) storetest.Outcome {
					if op == "open" {
						return outcome
					}
					return storetest.Works
				}}
			})
			testkit.Must(t, s.Put(t.Context(), "a/b", strings.NewReader(text), int64(len(text))))
			testkit.Must(t, os.CopyFS(second, os.DirFS(dir)))
			for _, off := range []int64{0, 7, 100_001} {
				if got, err := readFrom(t, s, "a/b", off); err != nil || got != text[off:] {
					t.Errorf("from %d: %d bytes, %v", off, len(got), err)
				}
			}
			testkit.Must(t, os.RemoveAll(filepath.Join(second, "a")))
			if got, err := readFrom(t, s, "a/b", 0); err == nil || got == text {
				t.Errorf("without the copy: %d bytes, %v", len(got), err)
			}
		})
	}
}

// After a while the store is asked again, and a copy that cannot be opened hides nothing that the
// store has.
func TestBackedReturnsToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, second := openFS(t, t.TempDir()), openFS(t, t.TempDir())
		for _, s := range []store.Store{under, second} {
			testkit.Must(t, s.Put(t.Context(), "a", bytes.NewReader([]byte("right")), 5))
		}
		opens := 0
		s, counted := store.NewBacked(under, func(context.Context) (store.Store, error) {
			if opens++; opens < 3 {
				return nil, errors.New("away")
			}
			return second, nil
		}, slog.New(slog.DiscardHandler))
		counted.Doubt("a")
		for n := range 4 {
			if got, err := readFrom(t, s, "a", 0); err != nil || got != "right" {
				t.Errorf("reading %d: %q, %v", n, got, err)
			}
			time.Sleep(time.Minute)
		}
		if opens != 3 {
			t.Errorf("the copy was opened %d times; twice it was away", opens)
		}
		if counted.Reads() == 0 {
			t.Error("nothing was read from the copy")
		}
		time.Sleep(time.Hour)
		before := counted.Reads()
		if _, err := readFrom(t, s, "a", 0); err != nil || counted.Reads() != before {
			t.Errorf("an hour later %d reads were of the copy, %v", counted.Reads()-before, err)
		}
	})
}

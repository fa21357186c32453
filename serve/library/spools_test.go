package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/cache"
	"sheaf/internal/testkit"
)

// long returns a document that is too long for memory, and counts how often it is written.
func long(s *Spools, name string, size int, written *int, wait <-chan struct{}) *Document {
	return &Document{Name: name, Spools: s, Write: func(_ context.Context, w io.Writer) error {
		*written++
		if wait != nil {
			<-wait
		}
		_, err := io.WriteString(w, strings.Repeat(name, size/len(name)))
		return err
	}}
}

func readRange(t *testing.T, e *Entry, off, n int64) (io.ReadCloser, string) {
	t.Helper()
	ranges, err := e.Open(t.Context())
	testkit.Must(t, err)
	r, err := ranges.OpenRange(t.Context(), off, n)
	testkit.Must(t, err)
	got, err := io.ReadAll(r)
	testkit.Must(t, err)
	return r, string(got)
}

// A long text is written once for all who want it, also if its first reader leaves; each gets the
// range that it wants.
func TestLongTextIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memo := NewSpools(100<<20), cache.NewMemo(1<<20)
		written, wait := 0, make(chan struct{})
		d := long(s, "abcd", 4*maxHeld, &written, wait)
		gone, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := d.Entry(gone, memo); !errors.Is(err, context.Canceled) {
				t.Errorf("the reader that left got %v", err)
			}
		}()
		synctest.Wait()
		leave()
		var readers sync.WaitGroup
		for n := range int64(60) {
			readers.Go(func() {
				e, err := d.Entry(t.Context(), memo)
				if err != nil {
					t.Error(err)
					return
				}
				r, got := readRange(t, e, e.Size-n-1, 1)
				if want := string("dcba"[n%4]); got != want || e.Size != 4*maxHeld {
					t.Errorf("byte %d from the end of %d is %q, want %q", n, e.Size, got, want)
				}
				r.Close()
			})
		}
		synctest.Wait()
		close(wait)
		readers.Wait()
		if written != 1 {
			t.Errorf("written %d times", written)
		}
	})
}

// Readers that leave before their text is begun hold up nobody: theirs is not written, and those of
// others are.
func TestReadersThatLeaveHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memo := NewSpools(100<<20), cache.NewMemo(1<<20)
		var written [spoolsAtOnce + 2]int
		wait := make(chan struct{})
		for n := range spoolsAtOnce {
			d := long(s, fmt.Sprintf("busy %d\n", n), 2*maxHeld, &written[n], wait)
			go d.Entry(t.Context(), memo)
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		left, wanted := long(s, "left", 2*maxHeld, &written[spoolsAtOnce], nil), long(s, "wanted", 2*maxHeld, &written[spoolsAtOnce+1], nil)
		go left.Entry(gone, memo)
		go wanted.Entry(gone, memo)
		synctest.Wait()
		go func() {
			if _, err := wanted.Entry(t.Context(), memo); err != nil {
				t.Errorf("a reader beside one that left: %v", err)
			}
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		close(wait)
		synctest.Wait()
		if want := [...]int{1, 1, 0, 1}; written != want {
			t.Errorf("written %v times, want %v", written, want)
		}
	})
}

// Texts for which others must be written, as a MANIFEST needs the sizes of files of links, do not
// wait for each other's turns, however many are written at once, nor for who wants such a text
// itself.
func TestTextsWithinTextsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memo := NewSpools(100<<20), cache.NewMemo(1<<20)
		begun := make(chan struct{})
		part := func(n int) *Document { return long(s, fmt.Sprintf("part %d\n", n), 2*maxHeld, new(int), nil) }
		var readers sync.WaitGroup
		read := func(d *Document, size int64) {
			readers.Go(func() {
				if e, err := d.Entry(t.Context(), memo); err != nil || e.Size != size {
					t.Errorf("%s: %+v, %v", d.Name, e, err)
				}
			})
		}
		for n := range spoolsAtOnce {
			read(&Document{Name: fmt.Sprintf("whole %d", n), Spools: s, Write: func(ctx context.Context, w io.Writer) error {
				<-begun
				e, err := part(n).Entry(ctx, memo)
				if err == nil {
					_, err = fmt.Fprint(w, strings.Repeat("x", int(e.Size)))
				}
				return err
			}}, 2*maxHeld/7*7)
		}
		synctest.Wait()
		for n := range spoolsAtOnce {
			read(part(n), 2*maxHeld/7*7)
		}
		synctest.Wait()
		close(begun)
		readers.Wait()
		var held int64
		for _, text := range s.files {
			held += text.Size
		}
		if len(s.files) != 2*spoolsAtOnce || held != s.bytes {
			t.Errorf("%d files of %d bytes, %d are counted", len(s.files), held, s.bytes)
		}
	})
}

// Files that nobody reads make room for others, and are written again. Files that are read stay. If
// they leave no room, or the disk has none, the caller is told so.
func TestSpoolsKeepToTheirBound(t *testing.T) {
	s, memo := NewSpools(5*maxHeld), cache.NewMemo(1<<20)
	var written [4]int
	var entries [4]*Entry
	for i := range 3 {
		e, err := long(s, fmt.Sprintf("text %d\n", i), 2*maxHeld, &written[i], nil).Entry(t.Context(), memo)
		testkit.Must(t, err)
		entries[i] = e
	}
	if len(s.files) != 2 || s.bytes > s.limit {
		t.Errorf("%d files of %d bytes", len(s.files), s.bytes)
	}
	open := func(i int) io.Closer {
		r, got := readRange(t, entries[i], 7, 7)
		if want := fmt.Sprintf("text %d\n", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return r
	}
	first, second := open(0), open(2)
	if written != [4]int{2, 1, 1} {
		t.Errorf("written %v times", written)
	}
	fourth := long(s, "text 3\n", 2*maxHeld, &written[3], nil)
	if _, err := fourth.Entry(t.Context(), memo); !errors.Is(err, ErrNoSpace) {
		t.Errorf("while all files are read: %v", err)
	}
	testkit.Must(t, errors.Join(first.Close(), first.Close(), second.Close()))
	if _, err := fourth.Entry(t.Context(), memo); err != nil {
		t.Error(err)
	}
	full := &Document{Name: "full", Spools: s, Write: func(context.Context, io.Writer) error { return fmt.Errorf("write x: %w", unix.ENOSPC) }}
	if _, err := full.Entry(t.Context(), memo); !errors.Is(err, ErrNoSpace) {
		t.Errorf("on a full disk: %v", err)
	}
	if len(s.files) != 0 || s.bytes != 0 {
		t.Errorf("on a full disk %d files of %d bytes are kept that nobody reads", len(s.files), s.bytes)
	}
	testkit.Must(t, open(0).Close())
	var held int64
	for _, text := range s.files {
		held += text.Size
		if text.readers != 0 {
			t.Errorf("%d readers are left", text.readers)
		}
	}
	if held != s.bytes {
		t.Errorf("%d bytes are counted, %d are held", s.bytes, held)
	}
	short := &Document{Name: "short", Spools: s, Write: func(_ context.Context, w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("x"), 9))
		return err
	}}
	e, err := short.Entry(t.Context(), memo)
	testkit.Must(t, err)
	if r, got := readRange(t, e, 8, 1); got != "x" || s.bytes != held {
		t.Errorf("a short text: %q, %d bytes in files", got, s.bytes)
	} else {
		r.Close()
	}
}

// Every range of a short text must fit the whole.
func TestShortText(t *testing.T) {
	e := Text("LATEST", "text/plain", time.Time{}, []byte("20261121\n"))
	for _, c := range [][2]int64{{0, 9}, {0, 0}, {9, 0}, {8, 1}, {2, 5}} {
		if _, got := readRange(t, e, c[0], c[1]); got != "20261121\n"[c[0]:c[0]+c[1]] {
			t.Errorf("range %v: %q", c, got)
		}
	}
}

// Package storecheck checks whether an object store keeps those promises of store.Store that can be
// seen from outside. The tests of package store check the same for Sheaf's own code.
// Durability cannot be seen: for it, one must trust the store.
package storecheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/store"
)

const (
	pageNames = 1100            // more than the 1,000 that a page of an S3 listing holds
	atOnce    = 32              // operations on different names at once
	writers   = 8               // writers of one name at once
	rounds    = 4               // rounds of these writers
	cleanTime = 2 * time.Minute // for deleting the check's objects, also after an interruption
)

// PartSize is the least size in bytes of a part that S3 joins. The store that Run takes as parts
// must send larger objects in parts.
const PartSize = 5 << 20

// checkTime is the most time that a check of a place may take.
const checkTime = time.Minute

// Place is Run for the store in a directory, or if dir is empty, in a bucket. It works below a
// random prefix, and removes what it has made there.
func Place(ctx context.Context, dir string, bucket store.S3Options) ([]Promise, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	name := "sheaf-check-" + strings.ToLower(rand.Text())
	if dir != "" {
		return inDirectory(ctx, dir, name)
	}
	return inBucket(ctx, bucket, name)
}

func inDirectory(ctx context.Context, dir, name string) (_ []Promise, err error) {
	if _, err := os.Stat(dir); err != nil { // a wrong name must not be taken for an empty store
		return nil, fmt.Errorf("check store: %w", err)
	}
	dir = filepath.Join(dir, name)
	objects, err := store.OpenFS(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close(), os.RemoveAll(dir)) }()
	return Run(ctx, objects, nil)
}

func inBucket(ctx context.Context, opt store.S3Options, prefix string) (_ []Promise, err error) {
	opt.ReadOnly = true // otherwise OpenS3 would leave an object of its own
	opt.Prefix = path.Join(opt.Prefix, prefix)
	objects, err := store.OpenS3(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	opt.MaxPut = PartSize
	parts, err := store.OpenS3(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parts.Close()) }()
	return Run(ctx, objects, parts)
}

// Promise is the result of checking one promise of store.Store.
type Promise struct {
	Promise string `json:"promise"`
	OK      bool   `json:"ok"`
	Seen    string `json:"seen,omitempty"`   // what contradicts the promise
	Breaks  string `json:"breaks,omitempty"` // what cannot work without it
}

// check is one run. Its methods may be called concurrently.
type check struct {
	store, parts store.Store

	mu   sync.Mutex // guards made
	made []string   // names that were put, or may have been
}

// Run checks a store that nothing else uses. It deletes all objects that it puts, also if ctx ends.
// It returns an error if deleting failed, or if ctx ended before all was checked. parts is the same
// store, opened to send objects above PartSize in parts; it is nil if the store knows no parts.
func Run(ctx context.Context, s, parts store.Store) (_ []Promise, err error) {
	c := &check{store: s, parts: parts}
	defer func() { err = errors.Join(err, c.clean(ctx)) }()
	inParts := c.putParts
	if parts == nil {
		inParts = nil
	}
	var found []Promise
	for _, p := range []struct {
		promise string
		try     func(ctx context.Context) error
		breaks  string
	}{
		{"an object that was put is read back whole", c.putOpen, "everything"},
		{"a put of a name that exists is refused", c.putTwice, "two processes publish one version twice, and one of them is lost"},
		{"of many puts of one name at once, exactly one wins", c.putRace, "two processes publish one version twice, and one of them is lost"},
		{"an object in parts is refused at its completion if the name exists", inParts, "a large object replaces one that was published"},
		{"ranges are read exactly, and refused beyond the end", c.ranges, "readers of single pages and resumed downloads get wrong bytes"},
		{"names with the characters that Sheaf uses are kept apart", c.names, "segments of some hosts cannot be stored or found"},
		{"a new object is listed at once", c.listNew, "a process that starts misses the newest version of the catalog"},
		{"a listing of several pages is complete and in byte order", c.listPages, "versions of the catalog are missed, and fsck and gc misjudge objects"},
		{"a listing begins after a given name", c.listAfter, "the newest version of the catalog is not found"},
		{"a deleted object is gone at once", c.deletes, "what was taken down can still be read"},
	} {
		if p.try == nil {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		result := Promise{Promise: p.promise, OK: true}
		if err := p.try(ctx); err != nil {
			result.OK, result.Seen, result.Breaks = false, err.Error(), p.breaks
		}
		if ctx.Err() == nil { // otherwise the failure comes from the end of ctx
			found = append(found, result)
		}
	}
	return found, ctx.Err()
}

func (c *check) put(ctx context.Context, s store.Store, key string, r io.Reader, size int64) error {
	c.mu.Lock()
	c.made = append(c.made, key)
	c.mu.Unlock()
	return s.Put(ctx, key, r, size)
}

func (c *check) putText(ctx context.Context, key, text string) error {
	return c.put(ctx, c.store, key, strings.NewReader(text), int64(len(text)))
}

// clean deletes all objects that were put. It uses the names that put has noted, because the
// listing may be broken.
func (c *check) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	slices.Sort(c.made)
	return each(slices.Compact(c.made), func(key string) error { return c.store.Delete(ctx, key) })
}

// each calls do for all keys, atOnce of them at a time, and returns the first error.
func each(keys []string, do func(key string) error) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, key := range keys {
		g.Go(func() error { return do(key) })
	}
	return g.Wait()
}

func (c *check) read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	r, err := c.store.Open(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// holds returns an error unless the range of the object is the text.
func (c *check) holds(ctx context.Context, key string, off, n int64, text string) error {
	got, err := c.read(ctx, key, off, n)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s, %d bytes from %d: read %d bytes %.40q, want %d bytes %.40q", key, n, off, len(got), got, len(text), text)
	}
	return err
}

func (c *check) putOpen(ctx context.Context) error {
	for key, text := range map[string]string{"put/empty": "", "put/one": "1", "put/large": strings.Repeat("0123456789abcdef", 1<<16)} {
		if err := c.putText(ctx, key, text); err != nil {
			return err
		}
		if err := c.holds(ctx, key, 0, -1, text); err != nil {
			return err
		}
		info, err := c.store.Stat(ctx, key)
		if err != nil {
			return err
		}
		if info.Size != int64(len(text)) {
			return fmt.Errorf("%s: size %d, want %d", key, info.Size, len(text))
		}
	}
	return nil
}

func (c *check) putTwice(ctx context.Context) error {
	if err := c.putText(ctx, "twice", "first"); err != nil {
		return err
	}
	if err := c.putText(ctx, "twice", "other"); !errors.Is(err, store.ErrExists) {
		return refusal("the second put", err)
	}
	return c.holds(ctx, "twice", 0, -1, "first")
}

// refusal describes the outcome of a put that should have failed with ErrExists.
func refusal(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s was accepted", what)
	}
	return fmt.Errorf("%s failed with: %w", what, err)
}

func (c *check) putRace(ctx context.Context) error {
	for round := range rounds {
		key := fmt.Sprintf("race/%d", round)
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { errs[w] = c.putText(ctx, key, fmt.Sprintf("writer %d", w)) })
		}
		wg.Wait()
		winner, won := 0, 0
		for w, err := range errs {
			if err == nil {
				winner, won = w, won+1
			} else if !errors.Is(err, store.ErrExists) {
				return refusal("one of the puts", err)
			}
		}
		if won != 1 {
			return fmt.Errorf("%d of %d puts were accepted", won, writers)
		}
		if err := c.holds(ctx, key, 0, -1, fmt.Sprintf("writer %d", winner)); err != nil {
			return err
		}
	}
	return nil
}

// putParts lets another writer take the name while the parts are under way. The parts begin only
// after Put has found the name free, so only the condition at their completion can refuse them.
func (c *check) putParts(ctx context.Context) error {
	data := bytes.Repeat([]byte("p"), PartSize+1)
	if err := c.put(ctx, c.parts, "parts/free", bytes.NewReader(data), int64(len(data))); err != nil {
		return err
	}
	if err := c.holds(ctx, "parts/free", PartSize-1, 2, "pp"); err != nil {
		return err
	}
	first := onceReader{Reader: bytes.NewReader(data), before: func() error { return c.putText(ctx, "parts/taken", "first") }}
	if err := c.put(ctx, c.parts, "parts/taken", &first, int64(len(data))); !errors.Is(err, store.ErrExists) {
		return refusal("the completion", err)
	}
	return c.holds(ctx, "parts/taken", 0, -1, "first")
}

// onceReader calls before once, when it is first read.
type onceReader struct {
	io.Reader
	before func() error
}

func (r *onceReader) Read(p []byte) (int, error) {
	if before := r.before; before != nil {
		r.before = nil
		if err := before(); err != nil {
			return 0, err
		}
	}
	return r.Reader.Read(p)
}

func (c *check) ranges(ctx context.Context) error {
	text := strings.Repeat("0123456789", 100)
	if err := c.putText(ctx, "range", text); err != nil {
		return err
	}
	for _, r := range []struct{ off, n, end int64 }{{0, 1, 1}, {0, 10, 10}, {123, 456, 579}, {500, -1, 1000}, {999, 1, 1000}, {1000, -1, 1000}} {
		if err := c.holds(ctx, "range", r.off, r.n, text[r.off:r.end]); err != nil {
			return err
		}
	}
	for _, r := range []struct{ off, n int64 }{{0, 1001}, {1000, 1}, {1001, -1}} {
		if got, err := c.read(ctx, "range", r.off, r.n); !errors.Is(err, store.ErrRange) {
			return fmt.Errorf("%d bytes from %d of 1000: read %d bytes (%v), want a refusal", r.n, r.off, len(got), err)
		}
	}
	return nil
}

func (c *check) names(ctx context.Context) error {
	keys := []string{
		"n/a", "n/A", "n/a.b-c_d/e,f:8080", "n/a[::1]/b=c+d@e", "n/a%2Fb", "n/a~b!c$d&e(f)g;h#i", "n/" + strings.Repeat("n", 255),
	}
	if err := each(keys, func(key string) error { return c.putText(ctx, key, key) }); err != nil {
		return err
	}
	if err := each(keys, func(key string) error { return c.holds(ctx, key, 0, -1, key) }); err != nil {
		return err
	}
	return c.lists(ctx, "n/", "", keys)
}

// lists returns an error unless the listing has exactly the keys, in byte order.
func (c *check) lists(ctx context.Context, prefix, after string, want []string) error {
	want = slices.Sorted(slices.Values(want))
	n := 0
	for info, err := range c.store.List(ctx, prefix, after) {
		switch {
		case err != nil:
			return err
		case n == len(want):
			return fmt.Errorf("list %s after %q: %s too much", prefix, after, info.Key)
		case info.Key != want[n]:
			return fmt.Errorf("list %s after %q: name %d is %s, want %s", prefix, after, n+1, info.Key, want[n])
		}
		n++
	}
	if n < len(want) {
		return fmt.Errorf("list %s after %q: %d names, want %d", prefix, after, n, len(want))
	}
	return nil
}

func (c *check) listNew(ctx context.Context) error {
	var keys []string
	for i := range 10 {
		key := fmt.Sprintf("new/%d", i)
		if err := c.putText(ctx, key, ""); err != nil {
			return err
		}
		keys = append(keys, key)
		if err := c.lists(ctx, "new/", "", keys); err != nil {
			return err
		}
	}
	return nil
}

// pageKeys returns names whose byte order differs from the order of a walk through directories by
// name.
func pageKeys() []string {
	keys := []string{"l/0500-b", "l/0500.b", "l/0500/b", "l/05000", "l/B", "l/a"}
	for i := range pageNames {
		if i != 500 { // is the directory of l/0500/b
			keys = append(keys, fmt.Sprintf("l/%04d", i))
		}
	}
	return slices.Sorted(slices.Values(keys))
}

func (c *check) listPages(ctx context.Context) error {
	if err := each(pageKeys(), func(key string) error { return c.putText(ctx, key, "") }); err != nil {
		return err
	}
	return c.lists(ctx, "l/", "", pageKeys())
}

func (c *check) listAfter(ctx context.Context) error {
	keys := pageKeys()
	for _, at := range []int{0, 503, 999, 1000, len(keys) - 1} {
		if err := c.lists(ctx, "l/", keys[at], keys[at+1:]); err != nil {
			return err
		}
	}
	return c.lists(ctx, "l/", "l/0007x", keys[slices.Index(keys, "l/0008"):])
}

func (c *check) deletes(ctx context.Context) error {
	for range 2 { // the name is free again
		if err := c.putText(ctx, "delete/k", "text"); err != nil {
			return err
		}
		for range 2 { // deleting a missing object is no error
			if err := c.store.Delete(ctx, "delete/k"); err != nil {
				return err
			}
		}
		if _, err := c.read(ctx, "delete/k", 0, -1); !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("a deleted object can be read (%v)", err)
		}
		if err := c.lists(ctx, "delete/", "", nil); err != nil {
			return err
		}
	}
	return nil
}

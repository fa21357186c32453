package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/wire"
)

// Fsck checks the objects of a store against the store's catalog. If deep is true, it also reads
// and verifies every segment. It changes nothing, and a service may be running.
func Fsck(ctx context.Context, objects store.Store, deep bool) (*catalog.Report, error) {
	return fsck(ctx, objects, deep, nil)
}

// fsck is Fsck with damaged as catalog.FsckOptions.Damaged.
func fsck(ctx context.Context, objects store.Store, deep bool, damaged func(key string, named bool)) (*catalog.Report, error) {
	return catalog.Fsck(ctx, objects, catalog.FsckOptions{
		Deep:    deep,
		Damaged: damaged,
		Index:   urlindex.NewIndex(objects),
		Verify:  func(ctx context.Context, l catalog.SegmentEntry) error { return verifyLine(ctx, objects, l) },
	})
}

// verifyLine compares a segment, and the objects that an import kept beside it, with the catalog's
// entry.
func verifyLine(ctx context.Context, objects store.Store, l catalog.SegmentEntry) error {
	if err := verifySegment(ctx, objects, l); err != nil {
		return err
	}
	if err := verifyOthers(ctx, objects, l); err != nil {
		return &catalog.Damage{Key: wire.OthersKey(wire.BatchID(l.Batch)), Err: err}
	}
	return nil
}

// verifySegment reads a segment and compares it with the catalog's entry.
func verifySegment(ctx context.Context, objects store.Store, l catalog.SegmentEntry) (err error) {
	r, err := objects.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	opt := archive.VerifyOptions{Host: l.Host}
	for name := range l.Views {
		if name != wire.ViewOthers { // it is in an object of its own
			opt.Views = append(opt.Views, archive.ViewKind(name))
		}
	}
	found, err := archive.VerifySegment(r, opt)
	if err != nil {
		return err
	}
	return compareLine(l, found)
}

// verifyOthers checks the host's records that an import kept beside its batch, if there are any.
func verifyOthers(ctx context.Context, objects store.Store, l catalog.SegmentEntry) error {
	want, ok := l.Views[wire.ViewOthers]
	if !ok {
		return nil
	}
	key := wire.OthersKey(wire.BatchID(l.Batch))
	got, err := store.Digest(ctx, objects, key, want.Offset, want.Size)
	if err == nil && got != want.SHA256 {
		err = fmt.Errorf("%d bytes at %d of %s have SHA-256 %s, the catalog says %s", want.Size, want.Offset, key, got, want.SHA256)
	}
	return err
}

func compareLine(l catalog.SegmentEntry, found *archive.Summary) error {
	switch {
	case found.SHA256 != l.SHA256:
		return fmt.Errorf("SHA-256 is %s, the catalog says %s", found.SHA256, l.SHA256)
	case found.IndexOffset != l.IndexOffset || found.IndexLength != l.IndexLength:
		return fmt.Errorf("index cell is %d bytes at %d, the catalog says %d at %d",
			found.IndexLength, found.IndexOffset, l.IndexLength, l.IndexOffset)
	case found.Records != l.Records || found.Revisits != l.Revisits || found.Files != l.Files:
		return fmt.Errorf("holds %d records, %d revisits, %d files, the catalog says %d, %d, %d",
			found.Records, found.Revisits, found.Files, l.Records, l.Revisits, l.Files)
	case l.Preferences != "" && found.Asked != l.Preferences:
		return fmt.Errorf("its robots.txt asks %q, the catalog says %q", found.Asked, l.Preferences)
	}
	for name, want := range l.Views {
		if name == wire.ViewOthers {
			continue
		}
		got := found.Views[archive.ViewKind(name)]
		if got.Size != want.Size || got.SHA256 != want.SHA256 || got.ETag != want.ETag {
			return fmt.Errorf("view %s is %d bytes of SHA-256 %s, ETag %s; the catalog says %d, %s, %s",
				name, got.Size, got.SHA256, got.ETag, want.Size, want.SHA256, want.ETag)
		}
	}
	return nil
}

// catalogPrefix begins the keys of the catalog's versions, which name all other objects.
const catalogPrefix = "catalog/"

// Repaired reports what Repair did.
type Repaired struct {
	Healed []string `json:"healed"` // keys of the objects that were replaced by the copy's
	Bytes  int64    `json:"bytes"`  // of these
	Lost   []string `json:"lost"`   // keys of damaged or missing objects that the copy cannot heal
	// Report is the result of Fsck for the store with the healed objects.
	Report *catalog.Report `json:"report"`
}

// Repair checks a store like a deep Fsck, and replaces damaged or missing objects by those of a
// copy. Before it changes anything, it checks the store as it would be with the copy's objects, and
// takes only objects in which that check finds nothing wrong. So it reads the store at least twice.
//
// While an object is replaced, it is missing for a moment. After an interrupted Repair, call it
// again. A service may be running.
func Repair(ctx context.Context, objects, from store.Store) (*Repaired, error) {
	p, err := newPatched(ctx, objects, from)
	if err != nil {
		return nil, err
	}
	done := &Repaired{Healed: []string{}, Lost: []string{}}
	damaged := make(map[string]bool) // true: named by the report
	for more := true; more; {
		clear(damaged)
		if done.Report, err = fsck(ctx, p, true, func(key string, named bool) { damaged[key] = damaged[key] || named }); err != nil {
			return nil, err
		}
		// Now that the catalog is whole, it may name further damaged objects.
		if more, err = p.add(ctx, damaged); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.taken)) {
		if _, bad := damaged[key]; bad {
			continue // missing here and in the copy
		}
		replaced, err := replace(ctx, objects, from, p.taken[key])
		if err != nil {
			return nil, fmt.Errorf("repair: %w", err)
		}
		if replaced {
			done.Healed, done.Bytes = append(done.Healed, key), done.Bytes+p.taken[key].Size
		}
	}
	maps.DeleteFunc(damaged, func(_ string, named bool) bool { return !named })
	done.Lost = slices.AppendSeq(done.Lost, maps.Keys(damaged))
	slices.Sort(done.Lost)
	return done, nil
}

// replace replaces a store's object by the copy's, unless they are equal. It reports whether it
// did.
func replace(ctx context.Context, to, from store.Store, object store.Info) (bool, error) {
	if same, err := equal(ctx, to, from, object); same || err != nil {
		return false, err
	}
	return true, put(ctx, to, from, object, true)
}

// put copies an object from one store to another. If over is true, it first deletes the object
// there.
func put(ctx context.Context, to, from store.Store, object store.Info, over bool) error {
	in, err := from.Open(ctx, object.Key, 0, object.Size)
	if err != nil {
		return err
	}
	if over {
		err = to.Delete(ctx, object.Key)
	}
	if err == nil {
		err = to.Put(ctx, object.Key, in, object.Size)
	}
	return errors.Join(err, in.Close())
}

// equal reports whether a store has the same object as the copy. An object that cannot be read
// counts as different.
func equal(ctx context.Context, to, from store.Store, object store.Info) (bool, error) {
	info, err := to.Stat(ctx, object.Key)
	if errors.Is(err, store.ErrNotExist) || err == nil && info.Size != object.Size {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ours, err := store.Digest(ctx, to, object.Key, 0, object.Size)
	if err != nil {
		return false, ctx.Err()
	}
	theirs, err := store.Digest(ctx, from, object.Key, 0, object.Size)
	return ours == theirs, err
}

// patched is a store with some objects of a copy in place of its own.
type patched struct {
	store.Store
	from  store.Store
	taken map[string]store.Info // of the copy
}

// newPatched returns the store, but takes the catalog's versions after the store's last version
// from the copy. It fails if the store has a catalog but shares no version with the copy: the copy
// is then probably another archive's.
func newPatched(ctx context.Context, objects, from store.Store) (*patched, error) {
	p := &patched{Store: objects, from: from, taken: make(map[string]store.Info)}
	last, common := "", false
	for info, err := range objects.List(ctx, catalogPrefix, "") {
		if err != nil {
			return nil, err
		}
		if last = info.Key; !common {
			if common, err = equal(ctx, from, objects, info); err != nil && !errors.Is(err, store.ErrNotExist) {
				return nil, err
			}
		}
	}
	if last != "" && !common {
		return nil, errors.New("repair: the copy is not of this store: no version of the catalog is the same in both")
	}
	for info, err := range from.List(ctx, catalogPrefix, last) {
		if err != nil {
			return nil, fmt.Errorf("the copy: %w", err)
		}
		if last != "" && len(p.taken) == 0 {
			if follows, err := p.follows(ctx, last, info.Key); !follows || err != nil {
				return p, err
			}
		}
		p.taken[info.Key] = info
	}
	return p, nil
}

// follows reports whether version next of the copy's catalog names the store's version last as the
// version before. If not, the copy belongs to another store, or one of the two versions is damaged.
func (p *patched) follows(ctx context.Context, last, next string) (bool, error) {
	before, err := store.ReadAll(ctx, p.Store, last, 0, -1)
	if err != nil {
		return false, err
	}
	record, err := store.ReadAll(ctx, p.from, next, 0, -1)
	if err != nil {
		return false, fmt.Errorf("the copy: %w", err)
	}
	var of struct{ Prev string }
	return json.Unmarshal(record, &of) == nil && of.Prev == wire.Digest(before), nil
}

// add takes the objects with these keys from the copy, if it has them. A key may also name a
// folder, such as a run of the URL index; then add takes all objects in it. It reports whether any
// object is new.
func (p *patched) add(ctx context.Context, keys map[string]bool) (more bool, err error) {
	for key := range keys {
		if _, taken := p.taken[key]; taken || store.CheckKey(strings.TrimSuffix(key, "/")) != nil {
			continue
		}
		info, err := p.from.Stat(ctx, strings.TrimSuffix(key, "/"))
		switch {
		case errors.Is(err, store.ErrNotExist):
			for info, err := range p.from.List(ctx, strings.TrimSuffix(key, "/")+"/", "") {
				if err != nil {
					return false, fmt.Errorf("the copy: %w", err)
				}
				if _, taken := p.taken[info.Key]; !taken {
					p.taken[info.Key], more = info, true
				}
			}
		case err != nil:
			return false, fmt.Errorf("the copy: %w", err)
		default:
			p.taken[key], more = info, true
		}
	}
	return more, nil
}

// of returns the store from which an object is read.
func (p *patched) of(key string) store.Store {
	if _, taken := p.taken[key]; taken {
		return p.from
	}
	return p.Store
}

// Open implements store.Store.
func (p *patched) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return p.of(key).Open(ctx, key, off, n)
}

// Stat implements store.Store.
func (p *patched) Stat(ctx context.Context, key string) (store.Info, error) {
	return p.of(key).Stat(ctx, key)
}

// List implements store.Store.
func (p *patched) List(ctx context.Context, prefix, after string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		taken := slices.Sorted(maps.Keys(p.taken))
		taken = slices.DeleteFunc(taken, func(key string) bool { return !strings.HasPrefix(key, prefix) || key <= after })
		for info, err := range p.Store.List(ctx, prefix, after) {
			if err != nil {
				yield(info, err)
				return
			}
			for len(taken) > 0 && taken[0] < info.Key {
				if !yield(p.taken[taken[0]], nil) {
					return
				}
				taken = taken[1:]
			}
			if len(taken) > 0 && taken[0] == info.Key {
				info, taken = p.taken[info.Key], taken[1:]
			}
			if !yield(info, nil) {
				return
			}
		}
		for _, key := range taken {
			if !yield(p.taken[key], nil) {
				return
			}
		}
	}
}

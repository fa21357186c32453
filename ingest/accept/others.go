package accept

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/foreign"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// Keep stores the records that a conversion has written to f, and their index. It makes temporary
// files in dir. Both objects depend on the converted file only, so objects that exist already are
// the same.
func Keep(ctx context.Context, s store.Store, dir string, id wire.BatchID, f *os.File, result *foreign.Result) (err error) {
	if result.Others == 0 {
		return nil
	}
	sorted, err := files.Nameless(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	of := slices.Clone(result.OthersOf)
	slices.SortStableFunc(of, func(a, b foreign.Stretch) int { return cmp.Compare(a.Host, b.Host) })
	index, err := files.Nameless(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.Close()) }()

	out, lines := bufio.NewWriterSize(sorted, 256<<10), bufio.NewWriter(index)
	enc := json.NewEncoder(lines)
	var host wire.OtherRecords
	for n := 0; n < len(of); {
		host = wire.OtherRecords{Host: of[n].Host, Offset: host.Offset + host.Size}
		sum := sha256.New()
		for ; n < len(of) && of[n].Host == host.Host; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := io.Copy(io.MultiWriter(out, sum), io.NewSectionReader(f, of[n].Offset, of[n].Size)); err != nil {
				return err
			}
			host.Size, host.Records = host.Size+of[n].Size, host.Records+of[n].Records
		}
		host.SHA256 = hex.EncodeToString(sum.Sum(nil))
		if err := enc.Encode(host); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Flush(), lines.Flush()); err != nil {
		return err
	}
	return errors.Join(put(ctx, s, wire.OthersKey(id), sorted), put(ctx, s, wire.OthersIndexKey(id), index))
}

func put(ctx context.Context, s store.Store, key string, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := s.Put(ctx, key, f, size); err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// Views returns, by host, where the store has a batch's records that are no pages. It returns nil
// for most batches, because they have no such records.
func Views(ctx context.Context, s store.Store, id wire.BatchID) (_ map[string]catalog.View, err error) {
	key := wire.OthersIndexKey(id)
	in, err := s.Open(ctx, key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	views := make(map[string]catalog.View)
	for dec := json.NewDecoder(bufio.NewReader(in)); ; {
		var o wire.OtherRecords
		if err := dec.Decode(&o); err == io.EOF {
			return views, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		if o.Host != "" {
			views[o.Host] = catalog.View{Size: o.Size, SHA256: o.SHA256, ETag: `"` + o.SHA256[:min(32, len(o.SHA256))] + `"`, Offset: o.Offset}
		}
	}
}

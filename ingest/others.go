package ingest

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
	"net/http"
	"os"
	"slices"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/foreign"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// keepOthers stores the records of a foreign file that are in no segment, those of a host together, and where
// they lie. Both objects follow from the file, so what is there already is the same; they are there before the batch is.
func (i *Ingest) keepOthers(ctx context.Context, id wire.BatchID, f *os.File, result *foreign.Result) (err error) {
	if result.Others == 0 {
		return nil
	}
	sorted, err := os.CreateTemp(i.buffers.converting(), "others-*.warc.gz")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorted.Close(), os.Remove(sorted.Name())) }()
	of := slices.Clone(result.OthersOf)
	slices.SortStableFunc(of, func(a, b foreign.Stretch) int { return cmp.Compare(a.Host, b.Host) })
	index, err := os.CreateTemp(i.buffers.converting(), "others-*.json")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.Close(), os.Remove(index.Name())) }()

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
	return errors.Join(i.putOnce(ctx, wire.OthersKey(id), sorted), i.putOnce(ctx, wire.OthersIndexKey(id), index))
}

// putOnce stores a file under a name that follows from what it holds.
func (i *Ingest) putOnce(ctx context.Context, key string, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := i.opt.Store.Put(ctx, key, f, size); err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// otherRecords gives the views of a batch's hosts that lie beside it, by host; none for most batches.
func (i *Ingest) otherRecords(ctx context.Context, id wire.BatchID) (_ map[string]catalog.View, err error) {
	key := wire.OthersIndexKey(id)
	in, err := i.opt.Store.Open(ctx, key, 0, -1)
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

// serveOthers gives the records of an imported file that are in no segment, as a .warc.gz.
func (i *Ingest) serveOthers(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["id"]
	in, err := i.opt.Store.Open(r.Context(), wire.OthersKey(wire.BatchID(id)), 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("nothing is kept beside the batch %q: it is none of an imported WARC with records that are neither pages nor answers", id))
	}
	if err != nil {
		return err
	}
	defer in.Close()
	w.Header().Set("Content-Type", "application/gzip")
	_, err = io.Copy(w, in)
	return err
}

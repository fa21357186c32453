package urlindex

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
)

// makeRun writes rows to temporary files and stores them as a run, under a name of its own. Nobody
// reads the run until a state names it. Without rows makeRun stores nothing.
func (j *job) makeRun(ctx context.Context, k kind, level int, from sortedrun.Rows) (ref runRef, err error) {
	cdx, err := files.Nameless(j.builder.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, cdx.Close()) }()
	idx, err := files.Nameless(j.builder.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, idx.Close()) }()
	w, err := newRunWriter(cdx, idx, blockRows)
	if err != nil {
		return ref, err
	}
	for from.Row() != nil {
		gone, err := j.gone.has(from.Row())
		if err != nil {
			return ref, err
		}
		if !gone {
			if err := w.add(from.Row()); err != nil {
				return ref, err
			}
		}
		if err := from.Next(ctx); err != nil {
			return ref, err
		}
	}
	ref, pages, err := w.finish()
	if err != nil || ref.Rows == 0 {
		return runRef{}, err
	}
	ref.Level = level
	ref.Name = fmt.Sprintf("%s%020d-%s", runPrefix, j.prev.N+1, strings.ToLower(rand.Text()))
	ref.built = time.Now()
	objects := ref.objects()
	for i, of := range []struct {
		write string
		data  io.ReaderAt
	}{{writeRows, cdx}, {writeBlocks, idx}, {writePlaces, strings.NewReader(places)}, {writePages, bytes.NewReader(pages)}} {
		err := j.builder.opt.Boundary.Write(string(k)+of.write, func() error {
			return store.PutOwn(ctx, j.builder.store, objects[i].Key, of.data, objects[i].Size)
		})
		if err != nil {
			return ref, err
		}
	}
	return ref, nil
}

// rewrite stores one run with the rows of several runs, without erased and expired rows.
func (j *job) rewrite(ctx context.Context, k kind, level int, runs ...runRef) (ref runRef, err error) {
	from := make([]sortedrun.Rows, len(runs))
	for i, r := range runs {
		s, err := openStream(ctx, j.builder.store, r)
		if err != nil {
			return ref, err
		}
		defer s.close()
		from[i] = s
	}
	return j.makeRun(ctx, k, level, sortedrun.Merge(compareLines, from...))
}

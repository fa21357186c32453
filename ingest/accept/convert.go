package accept

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sheaf/ingest/foreign"
	"sheaf/internal/files"
)

// convert is Infer for a foreign file: it converts the file to a batch in a new file. Records that
// have no place in a segment go to the store, beside the batch's manifest.
func (a *Acceptor) convert(ctx context.Context, up Upload, f *os.File, opt ImportOptions) (_ *Found, err error) {
	dir := a.opt.Buffers.Converting()
	out, err := os.CreateTemp(dir, "batch-*.tar.gz")
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil {
			os.Remove(out.Name())
		}
	}()
	rest, err := files.Nameless(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rest.Close()) }()
	buffered := bufio.NewWriter(rest)

	start := time.Now()
	result, err := foreign.Convert(ctx, f, out, foreign.Options{
		Robot: up.Robot, Hosts: opt.Hosts, Lenient: opt.Lenient, Dir: dir, MaxBody: a.opt.Limits.MaxBody, Limits: a.opt.ForeignLimits, Others: buffered,
	})
	if _, ok := errors.AsType[*foreign.Error](err); ok {
		return nil, refusalOf(err)
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return nil, fmt.Errorf("convert %s: %w", up.Path, err)
	}
	if err := out.Sync(); err != nil {
		return nil, err
	}
	m, err := a.inferBatch(ctx, up, out)
	if err != nil {
		return nil, err
	}
	if err := Keep(ctx, a.opt.Store, dir, m.Batch, rest, result); err != nil {
		return nil, err
	}
	a.opt.Log.InfoContext(ctx, "foreign file converted", "kind", result.Kind, "robot", up.Robot, "batch", m.Batch, "hosts", result.Hosts,
		"pages", result.Pages, "answers", result.Responses, "revisits", result.Revisits, "others", result.Others, "lost", result.Lost, "took", time.Since(start))
	return &Found{Manifest: m, Path: out.Name(), Converted: result}, nil
}

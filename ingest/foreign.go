package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sheaf/ingest/foreign"
)

// ImportRobot is whose batches those are that operators import. No robot can join under
// the name, and any host is its to bring.
const ImportRobot = "import"

// staleConversion is how long what a killed process has begun to convert is left alone: another
// one may still be at work on what looks the same.
const staleConversion = 24 * time.Hour

// convert makes a batch of a foreign file, in a file of its own, and takes it for what Infer finds.
// Records that a segment has no place for are kept beside the batch's manifest, for ever.
func (i *Ingest) convert(ctx context.Context, up Upload, f *os.File, hosts foreign.HostMap) (_ *Found, err error) {
	out, err := os.CreateTemp(i.buffers.converting(), "batch-*.tar.gz")
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil {
			os.Remove(out.Name())
		}
	}()
	others, err := os.CreateTemp(i.buffers.converting(), "others-*.warc.gz")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, others.Close(), os.Remove(others.Name())) }()
	buffered := bufio.NewWriter(others)

	start := time.Now()
	result, err := foreign.Convert(ctx, f, out, foreign.Options{
		Robot: up.Robot, Hosts: hosts, Dir: i.buffers.converting(), MaxBody: i.opt.Limits.MaxBody, Limits: i.opt.ForeignLimits, Others: buffered,
	})
	var fault *foreign.Error
	if errors.As(err, &fault) {
		return nil, &Refusal{fault.Reason, fault.Error()}
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return nil, fmt.Errorf("convert %s: %w", up.Path, err)
	}
	if err := out.Sync(); err != nil {
		return nil, err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m, err := i.inferBatch(ctx, up, out)
	if err != nil {
		return nil, err
	}
	if err := i.keepOthers(ctx, m.Batch, others, result); err != nil {
		return nil, err
	}
	i.log.Info("foreign file converted", "kind", result.Kind, "robot", up.Robot, "batch", m.Batch, "hosts", result.Hosts,
		"pages", result.Pages, "answers", result.Responses, "revisits", result.Revisits, "others", result.Others, "took", time.Since(start))
	return &Found{Manifest: m, Path: out.Name(), Converted: result}, nil
}

// converting is where conversions are under way.
func (b buffers) converting() string { return filepath.Join(b.dir, "converting") }

// sweepConverting removes what a killed process has left of conversions.
func (b buffers) sweepConverting(now time.Time) error {
	entries, err := os.ReadDir(b.converting())
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < staleConversion {
			continue
		}
		if err := os.RemoveAll(filepath.Join(b.converting(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

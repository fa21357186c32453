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
	"sheaf/internal/wire"
)

// Imported says what was found in an imported file, and how its batch stands.
type Imported struct {
	Batch     wire.BatchID `json:"batch"`
	State     wire.State   `json:"state"`
	Fresh     bool         `json:"fresh"` // false: the same file was imported before
	Kind      foreign.Kind `json:"kind,omitempty"`
	Hosts     int          `json:"hosts"`
	Pages     int64        `json:"pages"`
	Responses int64        `json:"responses"` // HTTP responses that are no pages
	Revisits  int64        `json:"revisits"`
	Others    int64        `json:"others"` // records kept beside the batch
	foreign.Losses
	Aside foreign.Losses `json:"aside,omitzero"` // the records of Others that readers would expect at their address, and do not find there

	Unread foreign.Losses `json:"unread,omitzero"` // see foreign.Result
}

// ImportOptions say how to read a foreign file.
type ImportOptions struct {
	Hosts   foreign.HostMap // the host of each folder in a tree of pages; nil: Options.Hosts
	Lenient bool            // leave out what is damaged, and report it

	Collection wire.Collection // the collection to which it belongs; zero: none
}

// Import accepts a foreign file, or a batch, that an operator brings. If the file is wrong, it
// returns an *inbox.Refusal and keeps nothing, because the operator has the file.
func (a *Acceptor) Import(ctx context.Context, path string, opt ImportOptions) (_ *Imported, err error) {
	if opt.Hosts == nil {
		opt.Hosts = a.opt.ForeignHosts
	}
	up := Upload{Robot: wire.ImportRobot, Protocol: wire.ImportRobot, Path: path}
	found, err := a.infer(ctx, up, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Drop()) }()
	up.Path, found.Manifest.Collection = found.Path, opt.Collection
	fresh, err := a.AcceptInferred(ctx, up, found.Manifest)
	if err != nil {
		return nil, err
	}
	b, err := a.opt.Ledger.Get(ctx, string(found.Manifest.Batch))
	if err != nil {
		return nil, err
	}
	done := &Imported{Batch: b.Batch, State: b.State, Fresh: fresh, Hosts: len(found.Manifest.Hosts)}
	if c := found.Converted; c != nil {
		done.Kind, done.Pages, done.Responses, done.Revisits, done.Others = c.Kind, c.Pages, c.Responses, c.Revisits, c.Others
		done.Losses, done.Aside, done.Unread = c.Losses, c.Aside, c.Unread
	}
	return done, nil
}

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

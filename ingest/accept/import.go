package accept

import (
	"context"
	"errors"

	"sheaf/ingest/foreign"
	"sheaf/internal/wire"
)

// Imported is the answer to an import.
type Imported struct {
	Batch     wire.BatchID `json:"batch"`
	State     wire.State   `json:"state"`
	Fresh     bool         `json:"fresh"` // false: the same file has been imported before
	Kind      foreign.Kind `json:"kind,omitempty"`
	Hosts     int          `json:"hosts"`
	Pages     int64        `json:"pages"`
	Responses int64        `json:"responses"` // answers that are no page
	Revisits  int64        `json:"revisits"`
	Others    int64        `json:"others"` // records kept beside the batch
	foreign.Losses
	Aside foreign.Losses `json:"aside,omitzero"` // those of the others that are for an address, at which readers do not find them

	Unread foreign.Losses `json:"unread,omitzero"` // see foreign.Result
}

// ImportOptions say how a foreign file is to be read.
type ImportOptions struct {
	Hosts   foreign.HostMap // which hosts the folders of a tree of pages are; nil: those of Options
	Lenient bool            // leave out what is damaged, and say what that was

	Collection wire.Collection // to which it belongs; zero: none
}

// Import accepts a foreign file, or a batch, that an operator brings. What is wrong with the
// file is a *inbox.Refusal; then nothing of it is kept, for the operator has the file.
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

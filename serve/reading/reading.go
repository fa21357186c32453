// Package reading puts together what consumers read, for all protocols.
package reading

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/texts"
	"sheaf/serve/tree"
)

// Options of a Library. Catalog and Store are required.
type Options struct {
	Catalog *catalog.Catalog
	Store   store.Store

	Accounts *account.Accounts // tells how accounts change while they read; nil: they do not change
	Meter    *account.Meter    // counts and limits what accounts read; default: in this process
	Rules    *account.Rules    // hide what not everybody may see; nil: nothing

	URLs *urlindex.Reader // finds records by URL; nil: the segments' own indexes do
	Log  *slog.Logger     // default: discards

	Grace      time.Duration // how long a download may continue after its account's window has closed; default account.DefaultGrace
	CacheBytes int64         // limit for cached indexes and views; default 256 MiB
	Contact    string        // address for questions, for /README; may be empty
	Widest     int           // see tree.Options
	Volume     int64         // see tree.Options.VolumeBytes
	SpoolBytes int64         // limit for the temporary files of long texts; default 4 GiB
	Lag        time.Duration // see library.Library; default 0
}

const (
	defaultCache = 256 << 20
	defaultSpool = 4 << 30
)

// Library is everything that consumers read. All methods of its parts may be called concurrently.
type Library struct {
	Access  *account.Access
	Archive *library.Library
	Tree    *tree.Tree
	Records *records.Records
	Results *results.Files
	Changes *library.Feed
	Rules   *account.Rules // nil: there are none
	Contact string
}

// New makes a Library over a catalog and the store that has its segments.
func New(opt Options) (*Library, error) {
	if opt.Catalog == nil || opt.Store == nil {
		return nil, errors.New("reading: a library needs a catalog and a store")
	}
	opt.Grace = cmp.Or(opt.Grace, account.DefaultGrace)
	if opt.Meter == nil {
		opt.Meter = account.NewMeter(account.Options{})
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.CacheBytes = cmp.Or(opt.CacheBytes, defaultCache)
	opt.SpoolBytes = cmp.Or(opt.SpoolBytes, defaultSpool)
	memo := cache.NewMemo(opt.CacheBytes)
	from := &library.Library{
		Catalog: opt.Catalog, Segments: &library.Segments{Store: opt.Store, Memo: memo}, Memo: memo, Spools: library.NewSpools(opt.SpoolBytes), Log: opt.Log, Lag: opt.Lag, Rules: opt.Rules,
	}
	access := &account.Access{Accounts: opt.Accounts, Meter: opt.Meter, Grace: opt.Grace}
	found := records.New(from, opt.URLs)
	return &Library{
		Access:  access,
		Archive: from,
		Tree: tree.New(tree.Options{
			Archive: from, Access: access, Contact: opt.Contact, Widest: opt.Widest, VolumeBytes: opt.Volume,
			ChangeTable: func(w io.Writer) tree.ChangeTable { return results.NewChanges(w) },
			Texts: func(ctx context.Context, a *account.Account, h *library.Host, form string, w io.Writer) error {
				return results.WriteTexts(ctx, found, a, h, form, w)
			},
			Version: texts.Version,
		}),
		Records: found,
		Results: &results.Files{Archive: from, Access: access},
		Changes: &library.Feed{Archive: from},
		Rules:   opt.Rules,
		Contact: opt.Contact,
	}, nil
}

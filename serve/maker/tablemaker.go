package maker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/tree"
)

// leaseName is the name of the lease under which tables are made.
const leaseName = "tables"

// TableOptions are the settings of a TableMaker. All fields are required.
type TableOptions struct {
	Tree    *tree.Tree
	Tables  *results.Tables
	Records *records.Records
	Store   store.Store
	Leases  lease.Locker
	Days    int           // how many days, the newest ones, have tables; those of others are deleted
	Every   time.Duration // between two looks at the catalog; longer after a look that took long: see share
	Grace   time.Duration // how long a table is kept that nobody sees any more; more than tree.TablesFreshFor
	Log     *slog.Logger
}

// TableMaker makes tables while Run runs.
type TableMaker struct {
	opt  TableOptions
	sees string            // what everybody saw when all tables had been made
	fine map[string]string // by volume: what its tables depend on, if they are as they should be

	// doomed has the keys of tables that nobody sees any more, and when they are to be deleted. If
	// what was hidden comes back before that, so does the table.
	doomed map[string]time.Time
}

// NewTableMaker returns a TableMaker.
func NewTableMaker(opt TableOptions) *TableMaker {
	return &TableMaker{opt: opt, fine: make(map[string]string), doomed: make(map[string]time.Time)}
}

// everybody is an account that no rule names, since no account has its name. Tables are made as it
// sees them.
var everybody = &account.Account{Domains: []string{"*"}}

// longest is about how long one pass takes. The next one begins with the newest day again.
const longest = time.Minute

// withChanges is how many of the newest days have the files of their changes written before anybody
// asks for them: the last that is complete, and the one that is not.
const withChanges = 2

// errMore ends a pass that has taken long enough.
var errMore = errors.New("there is more to do")

// A TableMaker works for at most one share-th of its time. So tables cost no more where somebody
// publishes every few seconds.
const share = 20

// Run follows the catalog until ctx ends. A failure is logged, and the work repeated at the next
// look. Run returns nil.
func (m *TableMaker) Run(ctx context.Context) error {
	for {
		begun := time.Now()
		if err := m.Update(ctx); err != nil && !errors.Is(err, errMore) && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, "tables: making them failed and will be repeated", "err", err)
		}
		if !loop.Pause(ctx, max(m.opt.Every, (share-1)*time.Since(begun))) {
			return nil
		}
	}
}

// Update makes the tables that are missing, of the newest days first, and deletes those that
// are not wanted any more. It must not be called concurrently.
func (m *TableMaker) Update(ctx context.Context) error {
	_, sees, err := m.opt.Tree.Newest(ctx, everybody)
	if err != nil || sees == m.sees && len(m.due()) == 0 {
		return err
	}
	days, err := m.opt.Tree.Days(ctx)
	if err != nil {
		return err
	}
	days = days[max(0, len(days)-m.opt.Days):]
	err = m.opt.Leases.Do(ctx, leaseName, func(ctx context.Context, _ int64) error { return m.update(ctx, days) })
	if err == nil {
		m.sees = sees
	}
	return err
}

func (m *TableMaker) update(ctx context.Context, days []string) error {
	all, err := tree.StoredTables(ctx, m.opt.Store, "")
	if err != nil {
		return err
	}
	stored := make(map[string]map[string][]tree.VolumeTable) // by day, then by domain/volume
	for _, t := range all {
		if stored[t.Day] == nil {
			stored[t.Day] = make(map[string][]tree.VolumeTable)
		}
		of := t.Domain + "/" + t.Volume
		stored[t.Day][of] = append(stored[t.Day][of], t)
	}
	for _, day := range days[max(0, len(days)-withChanges):] {
		if err := m.opt.Tree.MakeChanges(ctx, everybody, day); err != nil {
			return fmt.Errorf("changes of %s: %w", day, err)
		}
	}
	p := &pass{TableMaker: m, begun: time.Now()}
	for _, day := range slices.Backward(days) {
		if err := p.day(ctx, day, stored[day]); err != nil {
			return fmt.Errorf("day %s: %w", day, err)
		}
		delete(stored, day)
	}
	for _, old := range stored {
		for _, of := range old {
			for _, t := range of {
				m.doomed[t.Key()] = p.begun
			}
		}
	}
	for _, key := range m.due() {
		if err := m.opt.Store.Delete(ctx, key); err != nil {
			return err
		}
		delete(m.doomed, key)
	}
	return nil
}

// due returns the keys of the tables that are to be deleted now.
func (m *TableMaker) due() (keys []string) {
	for key, at := range m.doomed {
		if !time.Now().Before(at) {
			keys = append(keys, key)
		}
	}
	return keys
}

// pass is one pass over the days.
type pass struct {
	*TableMaker
	begun time.Time
}

// day makes the tables of a day that are missing.
func (p *pass) day(ctx context.Context, day string, stored map[string][]tree.VolumeTable) error {
	return p.opt.Tree.Volumes(ctx, everybody, day, func(of tree.VolumeOf) error {
		name, state := day+"/"+of.Domain+"/"+of.Name, of.Modified.String()+of.Seen
		known := stored[of.Domain+"/"+of.Name]
		now := func(t tree.VolumeTable) bool { return t.Changed.Equal(of.Modified) }
		if p.fine[name] == state || of.Seen == "" && len(known) == len(tree.VolumeTables) && complete(known, now) {
			return nil
		}
		v, err := of.Make(ctx)
		if err != nil {
			return err
		}
		this := tree.VolumeTable{Day: day, Domain: of.Domain, Volume: of.Name, Digest: v.Digest(), Changed: of.Modified}
		if of.Seen != "" {
			this.Changed = time.UnixMilli(0)
		}
		wanted := func(t tree.VolumeTable) bool { return t.Digest == this.Digest && v.Hosts() > 0 }
		if v.Hosts() > 0 && !complete(known, wanted) {
			if err := p.make(ctx, this, v, known); err != nil {
				return err
			}
		}
		for _, t := range known {
			if wanted(t) {
				delete(p.doomed, t.Key())
			} else if p.doomed[t.Key()].IsZero() {
				p.doomed[t.Key()] = time.Now().Add(p.opt.Grace)
			}
		}
		p.fine[name] = state
		if time.Since(p.begun) > longest {
			return errMore
		}
		return nil
	})
}

// complete reports whether tables of each name are among those that are right.
func complete(known []tree.VolumeTable, right func(tree.VolumeTable) bool) bool {
	for _, name := range tree.VolumeTables {
		if !slices.ContainsFunc(known, func(t tree.VolumeTable) bool { return t.Name == name && right(t) }) {
			return false
		}
	}
	return true
}

// make makes the tables of a volume.
func (p *pass) make(ctx context.Context, this tree.VolumeTable, v *library.Volume, known []tree.VolumeTable) error {
	var hosts []*library.Host
	v.Each(func(h *library.Host) { hosts = append(hosts, h) })
	begun := time.Now()
	var rows, size int64
	for _, this.Name = range tree.VolumeTables {
		if slices.ContainsFunc(known, func(t tree.VolumeTable) bool { return t.Name == this.Name && t.Digest == this.Digest }) {
			continue
		}
		t, err := p.opt.Tables.MakeOf(ctx, p.opt.Records, everybody, this.Name, hosts)
		if err != nil {
			return fmt.Errorf("%s of volume %s of %s: %w", this.Name, this.Volume, this.Domain, err)
		}
		if err := put(ctx, p.opt.Store, this, t); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		rows, size = rows+t.Rows, size+t.Size()
	}
	p.opt.Log.InfoContext(ctx, "tables made", "day", this.Day, "domain", this.Domain, "volume", this.Volume, "rows", rows,
		"bytes", size, "took", time.Since(begun))
	return nil
}

// put stores a table of a volume.
func put(ctx context.Context, to store.Store, of tree.VolumeTable, t *results.Table) error {
	of.Rows, of.Size, of.SHA256 = t.Rows, t.Size(), t.SHA256
	r, err := t.Content(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return to.Put(ctx, of.Key(), r, of.Size)
}

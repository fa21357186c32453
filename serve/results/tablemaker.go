package results

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/texts"
	"sheaf/serve/tree"
)

// kind is what a TableMaker makes.
type kind struct {
	lease   string   // the name of the lease under which it is made
	names   []string // of the tables of a volume
	version int      // of the extraction
	changes bool     // also write the files of what the newest days changed
	current bool     // of volumes of the latest versions, in place of those of days
	share   int      // see Run
	make    func(p *pass, ctx context.Context, missing []string, v *library.Volume) (map[string]*Table, error)
}

var (
	// Tables cost no more than one twentieth of the time, also where somebody publishes every few
	// seconds.
	tables = kind{lease: "tables", names: tree.VolumeTables, changes: true, share: 20, make: (*pass).tables}

	// Texts cost half of the time: every page is read for them.
	volumeTexts = kind{lease: "texts", names: tree.VolumeTexts, version: texts.Version, share: 2, make: (*pass).texts}

	// Links of the latest versions cost a fifth of the time: their lists are short beside pages.
	currentLinks = kind{lease: "links", names: tree.CurrentTables, current: true, share: 5, make: (*pass).links}
)

// TableOptions are the settings of a TableMaker. All fields are required.
type TableOptions struct {
	Tree    *tree.Tree
	Files   *Files
	Records *records.Records
	Store   store.Store
	Leases  lease.Locker
	Days    int           // how many newest days have tables; unused for the latest versions
	Every   time.Duration // between two looks at the catalog; longer after a look that took long: see share
	Grace   time.Duration // how long a table is kept that nobody sees any more; more than tree.TablesFreshFor
	Log     *slog.Logger
}

// TableMaker makes tables while Run runs.
type TableMaker struct {
	kind
	opt  TableOptions
	sees string            // what everybody saw when all tables had been made
	fine map[string]string // by volume: what its tables depend on, if they are as they should be

	// doomed has the keys of tables that nobody sees any more, and when they are to be deleted. If
	// what was hidden comes back before that, so does the table.
	doomed map[string]time.Time
}

// NewTableMaker returns a TableMaker of records, hosts and links.
func NewTableMaker(opt TableOptions) *TableMaker { return newTableMaker(tables, opt) }

// NewTextMaker returns a TableMaker of texts.
func NewTextMaker(opt TableOptions) *TableMaker { return newTableMaker(volumeTexts, opt) }

// NewLinkMaker returns a TableMaker of the links of the latest versions, in both directions.
func NewLinkMaker(opt TableOptions) *TableMaker { return newTableMaker(currentLinks, opt) }

func newTableMaker(k kind, opt TableOptions) *TableMaker {
	return &TableMaker{kind: k, opt: opt, fine: make(map[string]string), doomed: make(map[string]time.Time)}
}

// longest is about how long one pass may take. The next pass begins with the newest day again.
const longest = time.Minute

// withChanges is the number of newest days whose files of changes are written before anybody asks
// for them: the last complete day, and the one under way.
const withChanges = 2

// errMore ends a pass that has taken long enough.
var errMore = errors.New("there is more to do")

// Run follows the catalog until ctx ends. It works for at most 1/share of its time. A failure is
// logged, and the work repeated at the next look. Run returns nil.
func (m *TableMaker) Run(ctx context.Context) error {
	for {
		begun := time.Now()
		if err := m.Update(ctx); err != nil && !errors.Is(err, errMore) && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, m.lease+": making them failed and will be repeated", "err", err)
		}
		if !loop.Pause(ctx, max(m.opt.Every, time.Duration(m.share-1)*time.Since(begun))) {
			return nil
		}
	}
}

// Update makes missing tables, newest days first, then deletes unwanted ones. If that takes longer
// than about a minute, it stops with an error. It must not be called concurrently.
func (m *TableMaker) Update(ctx context.Context) error {
	_, sees, err := m.opt.Tree.Newest(ctx, tree.Everybody)
	if err != nil {
		return err
	}
	var folders []string // the oldest first
	if m.current {
		folders, err = m.opt.Tree.CurrentFolders(ctx)
		sees = fmt.Sprint(sees, folders)
	}
	if err != nil || sees == m.sees && len(m.due()) == 0 {
		return err
	}
	if !m.current {
		if folders, err = m.opt.Tree.Days(ctx); err != nil {
			return err
		}
		folders = folders[max(0, len(folders)-m.opt.Days):]
	}
	err = m.opt.Leases.Do(ctx, m.lease, func(ctx context.Context, _ int64) error { return m.update(ctx, folders) })
	if err == nil {
		m.sees = sees
	}
	return err
}

// update makes the tables of days, or of the folders that tree.CurrentFolders returns.
func (m *TableMaker) update(ctx context.Context, days []string) error {
	all, err := tree.StoredTables(ctx, m.opt.Store, "")
	if err != nil {
		return err
	}
	stored := make(map[string]map[string][]tree.VolumeTable) // by day, then by domain/volume
	for _, t := range all {
		if !slices.Contains(m.names, t.Name) || t.OfCurrent() != m.current {
			continue
		}
		if stored[t.Day] == nil {
			stored[t.Day] = make(map[string][]tree.VolumeTable)
		}
		of := t.Domain + "/" + t.Volume
		stored[t.Day][of] = append(stored[t.Day][of], t)
	}
	for _, day := range days[max(0, len(days)-withChanges):] {
		if !m.changes {
			break
		}
		if err := m.opt.Tree.MakeChanges(ctx, tree.Everybody, day); err != nil {
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

// day makes a day's missing tables, and sets when unwanted ones are deleted.
func (p *pass) day(ctx context.Context, day string, stored map[string][]tree.VolumeTable) error {
	return p.opt.Tree.Volumes(ctx, tree.Everybody, day, func(of tree.VolumeOf) error {
		name, state := day+"/"+of.Domain+"/"+of.Name, of.Modified.String()+of.Seen
		known := stored[of.Domain+"/"+of.Name]
		now := func(t tree.VolumeTable) bool { return t.Changed.Equal(of.Modified) && t.Version == p.version }
		if p.fine[name] == state || of.Seen == "" && len(known) == len(p.names) && len(p.missing(known, now)) == 0 {
			return nil
		}
		v, err := of.Make(ctx)
		if err != nil {
			return err
		}
		this := tree.VolumeTable{Day: day, Domain: of.Domain, Volume: of.Name, Digest: v.Digest(), Changed: of.Modified, Version: p.version}
		if of.Seen != "" {
			this.Changed = time.UnixMilli(0)
		}
		wanted := func(t tree.VolumeTable) bool {
			return t.Digest == this.Digest && t.Version == this.Version && !v.Empty()
		}
		if missing := p.missing(known, wanted); !v.Empty() && len(missing) > 0 {
			if err := p.store(ctx, this, v, missing); err != nil {
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

// missing returns the names for which no known table is right.
func (k *kind) missing(known []tree.VolumeTable, right func(tree.VolumeTable) bool) (names []string) {
	for _, name := range k.names {
		if !slices.ContainsFunc(known, func(t tree.VolumeTable) bool { return t.Name == name && right(t) }) {
			names = append(names, name)
		}
	}
	return names
}

// store makes and stores a volume's missing tables.
func (p *pass) store(ctx context.Context, this tree.VolumeTable, v *library.Volume, missing []string) error {
	begun := time.Now()
	made, err := p.make(p, ctx, missing, v)
	if err != nil {
		return fmt.Errorf("volume %s of %s: %w", this.Volume, this.Domain, err)
	}
	var rows, size int64
	for _, this.Name = range missing {
		t := made[this.Name]
		if err := put(ctx, p.opt.Store, this, t); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		rows, size = rows+t.Rows, size+t.Size()
	}
	p.opt.Log.InfoContext(ctx, p.lease+" made", "day", this.Day, "domain", this.Domain, "volume", this.Volume, "rows", rows,
		"bytes", size, "took", time.Since(begun))
	return nil
}

// tables makes tables from the index of the hosts' records.
func (p *pass) tables(ctx context.Context, missing []string, v *library.Volume) (map[string]*Table, error) {
	made := make(map[string]*Table)
	for _, name := range missing {
		t, err := p.opt.Files.MakeOf(ctx, p.opt.Records, tree.Everybody, name, v.Hosts())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made[name] = t
	}
	return made, nil
}

// texts makes the texts of the hosts' pages, always in both forms.
func (p *pass) texts(ctx context.Context, _ []string, v *library.Volume) (map[string]*Table, error) {
	table, wet, err := p.opt.Files.MakeTexts(ctx, p.opt.Records, tree.Everybody, v.Hosts())
	return map[string]*Table{api.TableOfTexts: table, api.TextsAsWET: wet}, err
}

// links makes the tables of the pages' links, always all three.
func (p *pass) links(ctx context.Context, _ []string, v *library.Volume) (map[string]*Table, error) {
	links, inlinks, hosts, err := p.opt.Files.MakeLinks(ctx, tree.Everybody, v)
	return map[string]*Table{api.TableOfLinks: links, api.TableOfInlinks: inlinks, api.TableOfLinkHosts: hosts}, err
}

// put stores a table of a volume. The key tells the table's rows and digest.
func put(ctx context.Context, to store.Store, of tree.VolumeTable, t *Table) error {
	of.Rows, of.Size, of.SHA256 = t.Rows, t.Size(), t.SHA256
	r, err := t.Content(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return to.Put(ctx, of.Key(), r, of.Size)
}

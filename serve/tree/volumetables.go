package tree

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// TablesPrefix begins the keys of the tables of volumes (see library.Volume). The makers of package
// results put them there beside publication. Nothing but the names of these objects says which
// tables there are: tables/20261121/jp/00001-DIGEST-TIME-ROWS-SHA256.records.parquet. They are
// derived and can be deleted at any time.
//
// DIGEST is the digest of the volume from which the table was made. An account that sees the volume
// with another digest, because something in it is hidden or was taken down since, does not see the
// table. The texts of a volume are tables, too, in two forms. Their keys have the version of the
// extraction behind the SHA256: -V1. In place of the day, tables of volumes of the latest versions
// have the edition, behind currentTables.
const (
	TablesPrefix  = "tables/"
	currentTables = dirCurrent + "-"
)

// The names of the tables of a volume: those made from the index of its records, those for which
// all pages are read, and those of the latest versions.
var (
	VolumeTables  = []string{api.TableOfRecords, api.TableOfHosts, api.TableOfLinks}
	VolumeTexts   = []string{api.TableOfTexts, api.TextsAsWET}
	CurrentTables = []string{api.TableOfLinks, api.TableOfInlinks, api.TableOfLinkHosts}
)

// VolumeTable is a stored table of a volume, as its key and length tell it.
type VolumeTable struct {
	Day, Domain, Volume string    // such as 20261121, jp and 00001
	Name                string    // one of VolumeTables, VolumeTexts or CurrentTables
	Digest              string    // library.Volume.Digest
	Changed             time.Time // when the volume had been changed last, in milliseconds; zero: rules hid something
	Rows, Size          int64
	SHA256              string
	Version             int // of the extraction, of texts only
}

// Key returns the key of the table's object.
func (t VolumeTable) Key() string {
	version := ""
	if t.Version > 0 {
		version = fmt.Sprintf("-V%d", t.Version)
	}
	return fmt.Sprintf("%s%s/%s/%s-%s-%d-%d-%s%s.%s", TablesPrefix, t.Day, t.Domain, t.Volume, t.Digest, t.Changed.UnixMilli(), t.Rows, t.SHA256, version, t.Name)
}

// parseTableKey is the inverse of Key.
func parseTableKey(info store.Info) (t VolumeTable, ok bool) {
	parts := strings.Split(strings.TrimPrefix(info.Key, TablesPrefix), "/")
	if len(parts) != 3 {
		return t, false
	}
	file, name, _ := strings.Cut(parts[2], ".")
	fields := strings.Split(file, "-")
	version := 0
	if len(fields) == 6 {
		version, _ = strconv.Atoi(strings.TrimPrefix(fields[5], "V"))
	} else if len(fields) != 5 {
		return t, false
	}
	changed, err := strconv.ParseInt(fields[2], 10, 64)
	rows, rerr := strconv.ParseInt(fields[3], 10, 64)
	t = VolumeTable{
		Day: parts[0], Domain: parts[1], Volume: fields[0], Name: name, Digest: fields[1],
		Changed: time.UnixMilli(changed).UTC(), Rows: rows, Size: info.Size, SHA256: fields[4], Version: version,
	}
	return t, err == nil && rerr == nil && isTable(name) && t.Key() == info.Key
}

// OfCurrent reports whether the volume is one of the latest versions.
func (t VolumeTable) OfCurrent() bool { return strings.HasPrefix(t.Day, currentTables) }

// StoredTables lists the stored tables with keys that begin with TablesPrefix + under.
func StoredTables(ctx context.Context, st store.Store, under string) (all []VolumeTable, err error) {
	for info, err := range st.List(ctx, TablesPrefix+under, "") {
		if err != nil {
			return nil, fmt.Errorf("tables of volumes: %w", err)
		}
		if t, ok := parseTableKey(info); ok {
			all = append(all, t)
		}
	}
	return all, nil
}

// TablesFreshFor is the time after which every reader sees a table that was made.
const TablesFreshFor = 5 * time.Second

// volumeTables returns a domain's stored tables, as they were at most TablesFreshFor ago.
func (t *Tree) volumeTables(ctx context.Context, day, domain string) ([]VolumeTable, error) {
	key := fmt.Sprintf("tables of volumes %d %q %q", time.Now().UnixNano()/int64(TablesFreshFor), day, domain)
	return cache.GetOrCompute(ctx, t.opt.Archive.Memo, key, func(ctx context.Context) ([]VolumeTable, int64, error) {
		all, err := StoredTables(ctx, t.opt.Archive.Segments.Store, day+"/"+domain+"/")
		return all, 256 * int64(1+len(all)), err
	})
}

// file returns the table as a file of a volume that was modified at a time.
func (t VolumeTable) file(from store.Store, modified time.Time) *library.Entry {
	return &library.Entry{
		Node: library.Node{
			Name: t.Volume + "." + t.Name, Size: t.Size, Modified: library.Seconds(modified), Type: mediaOf(t.Name), ETag: `"` + t.SHA256[:32] + `"`, SHA256: t.SHA256,
		},
		Open: func(context.Context) (library.Ranges, error) {
			return store.Source(from, t.Key(), 0), nil
		},
		Object: t.Key(),
	}
}

// cutTable divides the name of a table's file into the volume's name and the table's name.
func cutTable(file string) (volume, name string, ok bool) {
	volume, name, _ = strings.Cut(file, ".")
	return volume, name, isTable(name)
}

func isTable(name string) bool {
	return slices.Contains(VolumeTables, name) || slices.Contains(VolumeTexts, name) || slices.Contains(CurrentTables, name)
}

// Everybody is an account that no rule names, since no account has its name. Tables are made as it
// sees them.
var Everybody = &account.Account{Domains: []string{"*"}}

// CurrentFolders returns the folders with tables of the latest versions, as VolumeTable.Day has
// them.
func (t *Tree) CurrentFolders(ctx context.Context) (folders []string, err error) {
	all, err := t.currents(ctx)
	for _, c := range all {
		folders = append(folders, currentTables+c.Edition)
	}
	slices.Sort(folders)
	return slices.Compact(folders), err
}

// LinkTables returns, for each domain, the tables called name of its newest volumes of the latest
// versions. They are sorted by Name, which is their path. While some of these tables are missing,
// it returns those of older volumes if these are complete.
func (t *Tree) LinkTables(ctx context.Context, name string) (tables []*library.Entry, err error) {
	v, err := t.opt.Archive.View(ctx, Everybody)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	f := &finder{t, v}
	all, err := f.currentSources(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b source) int { return b.current.Made.Compare(a.current.Made) })
	made := make(map[string][]*library.Entry) // by domain
	whole := make(map[string]bool)
	for _, of := range all {
		if whole[of.place] {
			continue
		}
		some, complete, err := f.linkTables(ctx, of, name)
		if err != nil {
			return nil, err
		}
		if whole[of.place] = complete; complete || made[of.place] == nil {
			made[of.place] = some
		}
	}
	for _, of := range made {
		tables = append(tables, of...)
	}
	slices.SortFunc(tables, func(a, b *library.Entry) int { return strings.Compare(a.Name, b.Name) })
	return tables, nil
}

// linkTables returns the tables called name of a source's volumes. complete says that no table is
// missing.
func (f *finder) linkTables(ctx context.Context, of source, name string) (tables []*library.Entry, complete bool, err error) {
	parts, err := f.volumeParts(ctx, of)
	complete = true
	for i := 0; i < len(parts) && err == nil; i++ {
		var v *volumeFiles
		var table *library.Entry
		switch v, table, err = f.tableOf(ctx, of, parts[i], numbered(i+1), name); {
		case err != nil || len(v.nodes) == 0:
		case table == nil:
			complete = false
		default:
			table.Name = of.current.key(table.Name)
			tables = append(tables, table)
		}
	}
	return tables, complete, err
}

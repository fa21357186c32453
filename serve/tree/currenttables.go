package tree

import (
	"context"
	"slices"
	"strings"

	"sheaf/serve/account"
	"sheaf/serve/library"
)

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

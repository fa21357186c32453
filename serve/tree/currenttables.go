package tree

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sheaf/archive/catalog"
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

// CurrentVolumes is Volumes for those volumes of the latest versions that have their tables in
// folder.
func (t *Tree) CurrentVolumes(ctx context.Context, a *account.Account, folder string, each func(VolumeOf) error) error {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	all, err := t.currents(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if currentTables+c.Edition != folder {
			continue
		}
		of, err := currentSource(ctx, v, c)
		if err == nil {
			err = (&finder{t, v}).volumesOf(ctx, of, each)
		}
		if err != nil && !errors.Is(err, catalog.ErrNotExist) {
			return err
		}
	}
	return nil
}

func currentSource(ctx context.Context, v *library.AccountView, c Current) (source, error) {
	ed, err := v.Snap.EditionInfo(ctx, c.Edition)
	return source{c.Edition, []catalog.Edition{ed}, c.Domain, true}, err
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
	all, err := t.currents(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Current) int { return b.Made.Compare(a.Made) })
	made := make(map[string][]*library.Entry) // by domain
	whole := make(map[string]bool)
	for _, c := range all {
		if whole[c.Domain] {
			continue
		}
		some, complete, err := (&finder{t, v}).linkTables(ctx, c, name)
		if err != nil {
			return nil, err
		}
		if whole[c.Domain] = complete; complete || made[c.Domain] == nil {
			made[c.Domain] = some
		}
	}
	for _, of := range made {
		tables = append(tables, of...)
	}
	slices.SortFunc(tables, func(a, b *library.Entry) int { return strings.Compare(a.Name, b.Name) })
	return tables, nil
}

// linkTables returns the tables called name of c's volumes. complete says that no table is missing.
func (f *finder) linkTables(ctx context.Context, c Current, name string) (tables []*library.Entry, complete bool, err error) {
	of, err := currentSource(ctx, f.view, c)
	if errors.Is(err, catalog.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	parts, err := f.volumeParts(ctx, of)
	complete = true
	for i := 0; i < len(parts) && err == nil; i++ {
		var v *volumeFiles
		var own []VolumeTable
		if v, err = f.volumeFiles(ctx, of, parts[i], numbered(i+1)); err == nil && len(v.nodes) > 0 {
			own, err = f.tablesOf(ctx, of, v, numbered(i+1))
			n := slices.IndexFunc(own, func(t VolumeTable) bool { return t.Name == name })
			if complete = complete && n >= 0; n >= 0 {
				table := own[n].file(f.tree.opt.Archive.Segments.Store, v.modified)
				table.Name = c.key(table.Name)
				tables = append(tables, table)
			}
		}
	}
	return tables, complete, err
}

package tables

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/coverage"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// Prefix begins the keys of the tables of volumes (see library.Volume). Package maker puts
// them there beside publication. Nothing but the names of these objects says which tables there
// are: tables/20261121/jp/00001-DIGEST-TIME-ROWS-SHA256.records.parquet. They are derived and can
// be deleted at any time.
//
// DIGEST is that of the volume of which the table was made. Who sees a volume with another digest,
// because something in it is hidden or was taken down since, does not see the table.
const Prefix = "tables/"

// VolumeNames are the names of the tables of a volume.
var VolumeNames = []string{RecordsName, HostsName, LinksName}

// OfVolume is a stored table of a volume.
type OfVolume struct {
	Day, Domain, Volume string    // such as 20261121, jp and 00001
	Name                string    // one of VolumeNames
	Digest              string    // library.Volume.Digest
	Changed             time.Time // when the volume had been changed last, in milliseconds; zero: rules hid something
	Rows, Size          int64
	SHA256              string
}

// Key returns the key of the table's object.
func (t OfVolume) Key() string {
	return fmt.Sprintf("%s%s/%s/%s-%s-%d-%d-%s.%s", Prefix, t.Day, t.Domain, t.Volume, t.Digest, t.Changed.UnixMilli(), t.Rows, t.SHA256, t.Name)
}

// parseKey is the inverse of Key.
func parseKey(info store.Info) (t OfVolume, ok bool) {
	parts := strings.Split(strings.TrimPrefix(info.Key, Prefix), "/")
	if len(parts) != 3 {
		return t, false
	}
	file, name, _ := strings.Cut(parts[2], ".")
	fields := strings.Split(file, "-")
	if len(fields) != 5 || !slices.Contains(VolumeNames, name) {
		return t, false
	}
	changed, err := strconv.ParseInt(fields[2], 10, 64)
	rows, rerr := strconv.ParseInt(fields[3], 10, 64)
	t = OfVolume{
		Day: parts[0], Domain: parts[1], Volume: fields[0], Name: name, Digest: fields[1],
		Changed: time.UnixMilli(changed).UTC(), Rows: rows, Size: info.Size, SHA256: fields[4],
	}
	return t, err == nil && rerr == nil && t.Key() == info.Key
}

// Stored lists the tables of volumes whose keys begin with Prefix and under.
func Stored(ctx context.Context, st store.Store, under string) (all []OfVolume, err error) {
	for info, err := range st.List(ctx, Prefix+under, "") {
		if err != nil {
			return nil, fmt.Errorf("tables of volumes: %w", err)
		}
		if t, ok := parseKey(info); ok {
			all = append(all, t)
		}
	}
	return all, nil
}

// FreshFor is how long a reader may not notice that a table was made.
const FreshFor = 5 * time.Second

// Volumes returns the stored tables of the volumes of a domain.
func (x *Tables) Volumes(ctx context.Context, day, domain string) ([]OfVolume, error) {
	key := fmt.Sprintf("tables of volumes %d %q %q", time.Now().UnixNano()/int64(FreshFor), day, domain)
	return cache.GetOrCompute(ctx, x.Archive.Memo, key, func(ctx context.Context) ([]OfVolume, int64, error) {
		all, err := Stored(ctx, x.Archive.Segments.Store, day+"/"+domain+"/")
		return all, 256 * int64(1+len(all)), err
	})
}

// File returns the table as a file of a volume that was modified at a time.
func (x *Tables) File(t OfVolume, modified time.Time) *library.Entry {
	return &library.Entry{
		Node: library.Node{
			Name: t.Volume + "." + t.Name, Size: t.Size, Modified: library.Seconds(modified), Type: mediaType, ETag: `"` + t.SHA256[:32] + `"`, SHA256: t.SHA256,
		},
		Open: func(context.Context) (library.Ranges, error) {
			return store.Source(x.Archive.Segments.Store, t.Key(), 0), nil
		},
		Object: t.Key(),
	}
}

// CutVolume divides the name of a table's file into that of its volume and that of the table.
func CutVolume(file string) (volume, name string, ok bool) {
	volume, name, _ = strings.Cut(file, ".")
	return volume, name, slices.Contains(VolumeNames, name)
}

// Put stores a table of a volume.
func (x *Tables) Put(ctx context.Context, of OfVolume, t *Table) error {
	of.Rows, of.Size, of.SHA256 = t.Rows, t.Size(), t.SHA256
	r, err := t.Content(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return x.Archive.Segments.Store.Put(ctx, of.Key(), r, of.Size)
}

// MakeOf makes the table of a name, one of VolumeNames, of what a volume has of hosts, which
// come in the order of the tree.
func (x *Tables) MakeOf(ctx context.Context, from *records.Records, a *account.Account, name string, hosts []*library.Host) (*Table, error) {
	if name == HostsName {
		return x.Hosts(ctx, a, func() ([]coverage.Coverage, error) { return coverage.OfHosts(ctx, x.Archive, a, hosts) })
	}
	return x.Make(ctx, a, name, OfBodies, func(to Sink) error {
		for _, h := range hosts {
			err := from.OfHost(ctx, a, h, func(c *records.Capture) error { return to.Add(ctx, c) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

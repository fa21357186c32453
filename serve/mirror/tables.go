package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
)

// A mirror can also keep the tables of records, hosts, links and texts that the newest days have
// beside the volumes of a top-level domain (package results), and those of links beside the volumes
// of its latest versions. Their folder is kept as a host's is. The feed tells of editions and
// take-downs, but not of tables, which are made later. So at the end of the feed the service's
// MANIFESTs of the volumes are read: all of them at the beginning and for a while after anything
// has happened, later the MANIFESTs of days newer than all with tables. The folders of the latest
// versions are listed each time: see toRead.
var (
	tableFile  = regexp.MustCompile(`^[0-9]{5}\.((records|hosts|links|inlinks|linkhosts|texts)\.parquet|wet\.gz)$`)
	volumesDir = regexp.MustCompile(`^/(?:days/[0-9]{8}|current/[0-9]{8}(?:-[0-9]+)?)/([a-z0-9_-]+)/$`)
	editionDay = regexp.MustCompile(`^[0-9]{8}`)
	topLevel   = regexp.MustCompile(`^[a-z0-9_-]+$`)
)

func isTable(name string) bool { return tableFile.MatchString(name) }

// tablesOf is what a mirror knows of tables.
type tablesOf struct {
	Days []string `json:"days,omitempty"` // that may have tables, the newest last
	// Withdrawn says that something was taken down or has expired since all MANIFESTs were read, so
	// that tables here may have to be deleted.
	Withdrawn bool `json:"withdrawn,omitempty"`

	until time.Time // until when all MANIFESTs are read
}

const (
	waiting = 3                // how many of the newest days may get tables that they do not have
	changes = 30 * time.Minute // for how long tables may be made after something has happened
)

// noteTables notes the days of new editions, and whether events take anything away.
func (m *mirror) noteTables(events []api.Event) {
	t := &m.state.Tables
	for _, e := range events {
		if len(m.Tables) == 0 {
			return
		}
		t.until = time.Now().Add(changes)
		switch {
		case e.Op != api.Put:
			t.Withdrawn = true
		case dayOf(e.Edition) != "" && !slices.Contains(t.Days, dayOf(e.Edition)):
			t.Days = append(t.Days, dayOf(e.Edition))
		}
	}
}

// dayOf returns the day that an edition's name begins with, "" if it has none.
func dayOf(edition string) string { return editionDay.FindString(edition) }

// checkTables returns an error unless all domains are top-level ones, which alone have tables.
func checkTables(domains []string) error {
	for _, d := range domains {
		if !topLevel.MatchString(d) {
			return fmt.Errorf("tables of %q: only top-level domains have them, such as jp", d)
		}
	}
	return nil
}

// tables brings the mirror's tables up to date.
func (m *mirror) tables(ctx context.Context) error {
	dirs, err := m.place.volumes()
	if err != nil {
		return err
	}
	latest, err := m.latest(ctx)
	if err != nil {
		return err
	}
	known, fetched := &m.state.Tables, m.fetched.Load()
	if err := m.hosts(ctx, m.tableTasks(m.toRead(dirs, latest))); err != nil {
		return err
	}
	if m.fetched.Load() > fetched { // the service is making tables: more may follow
		known.until = time.Now().Add(changes)
	}
	if dirs, err = m.place.volumes(); err != nil {
		return err
	}
	before := len(known.Days)
	newest := slices.Clone(known.Days[max(0, before-waiting):])
	known.Days = slices.DeleteFunc(known.Days, func(day string) bool {
		return !slices.Contains(newest, day) && !hasTables(day, dirs)
	})
	if before == len(known.Days) && !known.Withdrawn && len(dirs) == 0 {
		return nil
	}
	known.Withdrawn = false
	return m.place.save(m.state)
}

// latest returns the folders of latest versions' volumes that the service may have. The feed does
// not tell of them, so /current is listed: it has few.
func (m *mirror) latest(ctx context.Context) (dirs []string, err error) {
	if len(m.Tables) == 0 {
		return nil, nil
	}
	var editions []string
	err = m.insist(ctx, &m.files, func() (err error) {
		editions, err = m.remote.folders(ctx, "/current")
		return err
	})
	if err != nil && !errors.Is(err, errGone) {
		return nil, err
	}
	for _, edition := range editions {
		for _, domain := range m.Tables {
			if dir := "/current/" + edition + "/" + domain + "/"; volumesDir.MatchString(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, nil
}

// toRead returns the folders whose MANIFESTs are to be read. They always include the latest
// versions' folders that only the mirror or only the service has.
func (m *mirror) toRead(here, latest []string) []string {
	days, dirs := m.state.Tables.Days, slices.Concat(here, latest)
	if time.Now().After(m.state.Tables.until) {
		days = days[m.newestWithTables(here)+1:]
		dirs = slices.DeleteFunc(dirs, func(dir string) bool {
			return strings.HasPrefix(dir, "/days/") || slices.Contains(here, dir) && slices.Contains(latest, dir)
		})
	}
	for dir := range m.state.Pending {
		if volumesDir.MatchString(dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, day := range days {
		for _, domain := range m.Tables {
			dirs = append(dirs, "/days/"+day+"/"+domain+"/")
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// hasTables reports whether one of the folders holds tables of a day.
func hasTables(day string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(dir, "/days/"+day+"/") })
}

// newestWithTables returns the index of the newest day that has one of the folders, or -1.
func (m *mirror) newestWithTables(dirs []string) int {
	for i, day := range slices.Backward(m.state.Tables.Days) {
		if hasTables(day, dirs) {
			return i
		}
	}
	return -1
}

// tableTasks returns the tasks for folders of tables: to keep them as the service's, or to delete
// them if they are not wanted.
func (m *mirror) tableTasks(dirs []string) (tasks []*task) {
	for _, dir := range dirs {
		wanted := slices.Contains(m.Tables, volumesDir.FindStringSubmatch(dir)[1])
		tasks = append(tasks, &task{dir: dir, look: wanted, all: !wanted, wanted: map[string]file{}})
	}
	return tasks
}

// dropTables deletes all tables. They are fetched again when the service says what there is.
func (m *mirror) dropTables() error {
	dirs, err := m.place.volumes()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := m.forget(&task{dir: dir, all: true}); err != nil {
			return err
		}
	}
	m.state.Tables.Withdrawn, m.state.Tables.until = false, time.Now().Add(changes)
	return errors.Join(m.place.prune(), m.place.save(m.state))
}

// volumes returns the folders with tables.
func (p *place) volumes() (dirs []string, err error) {
	for _, root := range []string{"/days/", "/current/"} {
		names, err := os.ReadDir(p.at(root))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range names {
			if !e.IsDir() {
				continue
			}
			domains, err := os.ReadDir(p.at(root + e.Name()))
			if err != nil {
				return nil, err
			}
			for _, d := range domains {
				if dir := root + e.Name() + "/" + d.Name() + "/"; d.IsDir() && volumesDir.MatchString(dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return dirs, nil
}

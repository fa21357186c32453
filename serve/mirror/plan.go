package mirror

import (
	"cmp"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
)

// task is the work for one host.
type task struct {
	dir  string // in the tree, with slashes around it
	host string
	// look says to follow the service's MANIFEST of the host, and nothing else.
	look bool
	all  bool            // delete everything first
	gone map[string]bool // editions to delete
	// withdrawn says that something was taken down. Files that change with every edition may
	// contain it: they are deleted at once, even if the service cannot give the new ones.
	withdrawn bool
	wanted    map[string]file // files to have, by name
	asks      string          // what the host's robots.txt asks now; empty: what it asked before
}

// chosen reports whether the mirror keeps a host.
func (m *mirror) chosen(host string) bool {
	q := m.Selection
	if q.Len() == 0 || slices.Contains(q.Hosts, host) {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	key := catalog.Key(host)
	return slices.ContainsFunc(q.SURT, func(p string) bool { return strings.HasPrefix(key, p) }) ||
		slices.ContainsFunc(q.Domains, func(d string) bool { return d == host || d == name || strings.HasSuffix(name, "."+d) })
}

// plan returns the tasks for events, one for each host. It ignores events with paths that a service
// does not have, so that no path leads out of the directory.
func (m *mirror) plan(events []api.Event) []*task {
	var tasks []*task
	byDir := map[string]*task{}
	for _, e := range events {
		dir := e.Path
		if !isHostDir(dir, e.Host) || !m.chosen(e.Host) {
			continue
		}
		t := byDir[dir]
		if t == nil {
			t = &task{dir: dir, host: e.Host, gone: map[string]bool{}, wanted: map[string]file{}}
			byDir[dir] = t
			tasks = append(tasks, t)
		}
		t.take(m, e)
	}
	return tasks
}

// isHostDir reports whether a path is the directory of a host's files.
func isHostDir(dir, host string) bool {
	place := strings.Trim(dir, "/")
	return dir == "/"+naming.HostPath(host)+"/" && path.Clean(dir)+"/" == dir && filepath.IsLocal(place) && !strings.Contains(dir, "/.")
}

// takenDown is the reason of events for files that must not be kept.
const takenDown = "takedown"

func (t *task) take(m *mirror, e api.Event) {
	t.look = t.look || m.changing // whatever has happened, only the MANIFEST tells what they are now
	t.withdrawn = t.withdrawn || e.Why == takenDown
	t.asks = cmp.Or(e.Preferences, t.asks)
	switch {
	case e.Op == api.Put && len(e.Files) > 0:
		for _, f := range e.Files {
			if m.takes(f.Name) {
				t.wanted[f.Name] = file{
					Path: f.Name, Host: e.Host, Edition: e.Edition,
					Size: f.Size, SHA256: f.SHA256, ETag: f.ETag, Modified: e.At.Truncate(time.Second),
				}
			}
		}
	case e.Op == api.Delete && e.Edition == "":
		t.all, t.look = true, false
		clear(t.wanted)
	case e.Op == api.Delete:
		t.gone[e.Edition] = true
		maps.DeleteFunc(t.wanted, func(name string, _ file) bool { return editionOf(name) == e.Edition })
	default:
		t.look = true
	}
}

// again returns the tasks of the pending hosts.
func (m *mirror) again() (tasks []*task) {
	for dir := range m.state.Pending {
		if volumesDir.MatchString(dir) {
			continue // see tables
		}
		host, err := naming.HostFromPath(strings.Trim(dir, "/"))
		if err == nil {
			tasks = append(tasks, &task{dir: dir, host: host, look: true})
		}
	}
	return tasks
}

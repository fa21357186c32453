package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/preference"
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

// filters parses Options.Honour.
func filters(honour []string) (all []preference.Filter, err error) {
	for _, text := range honour {
		f, err := preference.ParseFilter(text)
		if err != nil {
			return nil, fmt.Errorf("what to honour: %w", err)
		}
		all = append(all, f)
	}
	return all, nil
}

// refuses reports whether a robots.txt that asks this keeps its host out of the mirror.
func (m *mirror) refuses(asks string) bool {
	if asks == archive.AsksNothing {
		asks = ""
	}
	return slices.ContainsFunc(m.honour, func(f preference.Filter) bool { return f.Holds(asks) })
}

// refused reports whether the task's host is to be left out. If the task's events say what its
// robots.txt asks, that decides; otherwise the earlier decision holds.
func (m *mirror) refused(t *task) bool {
	if t.asks != "" {
		return m.refuses(t.asks)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Refused[t.dir] != ""
}

// refuse remembers that a host is left out. Its files were deleted by forget.
func (m *mirror) refuse(t *task) error {
	m.place.bare(t.dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.state.Pending, t.dir)
	if t.asks == "" || m.state.Refused[t.dir] == t.asks {
		return nil
	}
	m.state.Refused[t.dir] = t.asks
	m.Reporter.Note(Note{Event: "refused", Path: t.dir, Why: t.asks})
	return nil
}

// returns reports whether a host was left out and no longer is. All its files are then to be
// fetched.
func (m *mirror) returns(t *task) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Refused[t.dir] != ""
}

// The names of archives in a host's directory; tables have a folder of their own. The mirror
// fetches and deletes no other files.
//
// The files of an edition never change. Those of current and all change with every edition: the
// feed says that the host has something new, and the host's MANIFEST says what these files are now.
var (
	editionFile  = regexp.MustCompile(`^[0-9]{8}(-[0-9]+)?\.(tar|warc|links)\.gz$`)
	changingFile = regexp.MustCompile(`^((current|all)\.(tar|warc)|all\.links)\.gz$`)
)

func isEditionFile(name string) bool { return editionFile.MatchString(name) }

func isChanging(name string) bool { return changingFile.MatchString(name) }

func isArchive(name string) bool { return isEditionFile(name) || isChanging(name) || isTable(name) }

func editionOf(name string) string {
	edition, _, _ := strings.Cut(name, ".")
	return edition
}

// form converts a form as users write it: to a suffix such as ".tar.gz" for files of editions, and
// to a whole name such as "current.tar.gz" for others.
func form(text string) (string, error) {
	if isChanging(text) {
		return text, nil
	}
	if suffix := "." + strings.TrimPrefix(text, "."); isEditionFile("20261121" + suffix) {
		return suffix, nil
	}
	if text == "current.links.gz" {
		return "", fmt.Errorf("form %q: it is put together for each who asks, and no MANIFEST tells whether it has changed; mirror all.links.gz", text)
	}
	return "", fmt.Errorf("form %q: give some of tar.gz, warc.gz and links.gz, of editions, and of current.tar.gz, current.warc.gz, all.tar.gz, all.warc.gz and all.links.gz", text)
}

// kept reports whether a file of this name is of one of the forms.
func kept(forms []string, name string) bool {
	return slices.Contains(forms, name) ||
		isEditionFile(name) && slices.ContainsFunc(forms, func(f string) bool { return strings.HasPrefix(f, ".") && strings.HasSuffix(name, f) })
}

// takes reports whether the mirror keeps a file of this name in its folder.
func (m *mirror) takes(name string) bool { return kept(m.Forms, name) || isTable(name) }

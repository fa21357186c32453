package frontier

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"sheaf/robotd/seen"
)

// Frontier is a folder of hosts. It may be used by many goroutines at once.
type Frontier struct {
	dir   string
	seen  *seen.Set                     // of all hosts, each of which salts its hashes
	ahead *lru.Cache[*Host, *lookAhead] // of the hosts that were visited last

	opens singleflight.Group // by host

	mu    sync.Mutex // guards cycle and hosts
	cycle int64
	hosts map[string]*Host
}

// temp is where the set of seen URLs has its files, and what is to be sorted.
func (f *Frontier) temp() string { return filepath.Join(f.dir, "temp") }

// Open opens or makes the folder and enters the given cycle. Whatever an
// earlier cycle left unsettled is settled when its host is opened.
func Open(dir string, cycle int64) (*Frontier, error) {
	f := &Frontier{dir: dir, cycle: cycle, hosts: make(map[string]*Host)}
	// A kill may have left files there.
	if err := errors.Join(os.RemoveAll(f.temp()), os.MkdirAll(f.temp(), 0o755)); err != nil {
		return nil, fmt.Errorf("frontier: %w", err)
	}
	f.seen = seen.New(f.temp())
	var err error
	f.ahead, err = lru.NewWithEvict(aheadHosts, func(h *Host, _ *lookAhead) { h.ahead.Store(nil) })
	return f, err
}

// Close lets go of the files that are open. The frontier is not to be used any more.
func (f *Frontier) Close() error { return f.seen.Clear() }

// Host opens the host's part of the frontier in the current cycle. That reads its log, many
// hosts' at once where many are asked for. Hosts must not be opened while Forget has
// the same one in hand, nor during Advance.
func (f *Frontier) Host(name string) (*Host, error) {
	h, err, _ := f.opens.Do(name, func() (any, error) {
		f.mu.Lock()
		h, cycle := f.hosts[name], f.cycle
		f.mu.Unlock()
		if h != nil {
			return h, nil
		}
		h, err := f.open(name, cycle)
		if err != nil {
			return nil, fmt.Errorf("frontier of %s: %w", name, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hosts[name] = h
		return h, nil
	})
	if err != nil {
		return nil, err
	}
	return h.(*Host), nil
}

// Names lists the hosts that the folder knows, open or not.
func (f *Frontier) Names() ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(f.dir, "??", "*"))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		name, err := url.QueryUnescape(filepath.Base(dir))
		if err != nil {
			return nil, fmt.Errorf("frontier: folder %s is not named after a host; move it away: %w", dir, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// Forget drops all that is known of a host: it went to another robot, or what
// was collected of it was refused, so that its pages must be taken in full again.
func (f *Frontier) Forget(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, name)
	return os.RemoveAll(f.path(name))
}

// ForgetVisits drops what is known of the host's pages, so that the next visit
// takes full copies, and keeps the queue of the current cycle.
func (f *Frontier) ForgetVisits(name string) error {
	h, err := f.Host(name)
	if err != nil {
		return err
	}
	return h.forgetVisits()
}

// Advance settles every host and enters the next cycle. It can be done again
// after a crash: a host that is settled already is left as it is.
func (f *Frontier) Advance(cycle int64) error {
	names, err := f.Names()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if err := settleBefore(f.temp(), f.path(name), name, cycle); err != nil {
			return fmt.Errorf("frontier of %s: %w", name, err)
		}
	}
	f.cycle = cycle
	clear(f.hosts)
	f.ahead.Purge()
	return f.seen.Clear()
}

// path spreads hosts over folders by the first byte of their hash, so that no
// folder becomes too long to list.
func (f *Frontier) path(name string) string {
	h := hash(name)
	return filepath.Join(f.dir, fmt.Sprintf("%02x", byte(h>>56)), url.QueryEscape(name))
}

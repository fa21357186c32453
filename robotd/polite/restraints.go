package polite

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"sheaf/internal/files"
	"sheaf/robotd/config"
)

// longest is the limit for how long anything stored is believed: a Retry-After, a Crawl-delay, and
// a robots.txt (RFC 9309, 2.4). So a clock that was set back cannot exclude a host for ever.
const longest = 24 * time.Hour

// Restraint says when a host or an address may be visited again.
type Restraint struct {
	Until time.Time     // not before this time
	Every time.Duration // least interval: a Crawl-delay, or an interval extended because of trouble; 0: the usual one
}

// Restraints has the hosts and addresses that need more than the usual interval. Current restraints
// are in memory. Each change is also appended to a file as a line; the file is rewritten when most
// of it is outdated. Restraints may be used concurrently.
type Restraints struct {
	path string

	mu    sync.Mutex // guards all below
	file  *os.File
	lines int  // of the file
	torn  bool // the file lacks restraints, since the disk did not take them: it must be rewritten
	held  map[string]Restraint
}

// AddressName is the name of an address among the restraints. No host has such a name.
func AddressName(addr netip.Addr) string { return "@" + addr.String() }

// Address is Get for an address.
func (r *Restraints) Address(addr netip.Addr) Restraint { return r.Get(AddressName(addr)) }

// Keep sets a restraint if it asks for more than the usual interval. Every start waits for the
// usual interval anyway.
func (r *Restraints) Keep(name string, s Restraint, usual time.Duration) error {
	if s.Every <= usual {
		s.Every = 0
	}
	if s.Every == 0 && !s.Until.After(time.Now().Add(usual)) && r.Get(name).Every == 0 {
		return nil
	}
	return r.Set(name, s)
}

// slack is how many lines the file may have beyond twice the number of restraints. With more it is
// rewritten.
const slack = 4096

// OpenRestraints reads what was stored before the start. As the time of the last visits is unknown,
// every interval begins now.
func OpenRestraints(path string) (*Restraints, error) {
	r := &Restraints{path: path, held: make(map[string]Restraint)}
	now := time.Now()
	_, err := files.EachLine(path, 0, func(line []byte, _ int64) error {
		if name, s, ok := parseRestraint(string(line)); ok {
			if next := now.Add(s.Every); s.Until.After(now.Add(-longest)) && next.After(s.Until) {
				s.Until = next
			}
			if most := now.Add(longest); s.Until.After(most) {
				s.Until = most
			}
			r.held[name] = s
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, r.rewrite(now)
}

// line formats a restraint. It rounds times up, so that none is earlier when it is read again.
func (s Restraint) line(name string) string {
	const up = time.Millisecond - 1
	return config.Summed(fmt.Sprintf("%d %d %s", s.Until.Add(up).UnixMilli(), (s.Every+up).Milliseconds(), name)) + "\n"
}

func parseRestraint(line string) (name string, s Restraint, ok bool) {
	text, ok := config.Unsummed(line)
	if !ok {
		return "", s, false
	}
	f := strings.SplitN(text, " ", 3)
	if len(f) != 3 {
		return "", s, false
	}
	until, err1 := strconv.ParseInt(f[0], 10, 64)
	every, err2 := strconv.ParseInt(f[1], 10, 64)
	s = Restraint{time.UnixMilli(until), time.Duration(every) * time.Millisecond}
	return f[2], s, err1 == nil && err2 == nil
}

// rewrite writes the current restraints to a new file.
func (r *Restraints) rewrite(now time.Time) error {
	var text strings.Builder
	for name, s := range r.held {
		// Keep a longer interval for a while: the server may still be in trouble.
		if s.Until.Before(now) && (s.Every == 0 || s.Until.Before(now.Add(-longest))) {
			delete(r.held, name)
			continue
		}
		text.WriteString(s.line(name))
	}
	if err := files.WriteFile(r.path, []byte(text.String())); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if r.file != nil {
		err = r.file.Close()
	}
	r.file, r.lines, r.torn = f, len(r.held), false
	return err
}

// Get returns the restraint of a host, or of an address by its AddressName; zero if there is none.
func (r *Restraints) Get(name string) Restraint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[name]
}

// Set stores a restraint. It need not be called when a restraint has passed. If it returns an
// error, from writing to the disk, the restraint holds all the same, and a later Set writes it.
func (r *Restraints) Set(name string, s Restraint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	old, known := r.held[name]
	if !known && s.Every == 0 && !s.Until.After(now) || known && s == old && !r.torn {
		return nil
	}
	r.held[name] = s
	if r.lines++; r.torn || r.lines > 2*len(r.held)+slack {
		return r.rewrite(now)
	}
	err := files.Append(r.file, []byte(s.line(name)))
	r.torn = err != nil
	return err
}

// Close closes the file. Set must not be called afterwards.
func (r *Restraints) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}

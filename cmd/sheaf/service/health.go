package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sheaf/ingest/space"
)

// What load balancers, and people, ask of a process.
const (
	// PathLive answers 200 as long as the process works at all: one that does not is to be started again.
	PathLive = "/livez"
	// PathReady answers 200 where the process can do its work, and else 503: nothing is to be sent to it now.
	PathReady = "/readyz"
	// PathHealth is PathReady with all that was looked at, as JSON.
	PathHealth = "/healthz"
)

// Health answers GET /healthz.
type Health struct {
	Status   string            `json:"status"` // ok; degraded: can work in some of its roles; down: in none
	Roles    []string          `json:"roles"`
	Ready    map[string]string `json:"ready"`    // by role: ok or down
	Database string            `json:"database"` // ok, or away
	Checks   []HealthCheck     `json:"checks"`
	// DamagedRecords is how many times since the start a stored record was asked for that is
	// damaged, and was not shown.
	DamagedRecords int64  `json:"damaged_records"`
	Version        string `json:"version"`
}

// HealthCheck is one thing that was looked at.
type HealthCheck struct {
	Name    string    `json:"name"`             // database, store, catalog, disk or uploads
	Status  string    `json:"status"`           // ok or down
	Detail  string    `json:"detail,omitempty"` // what is wrong; the log says more
	Checked time.Time `json:"checked"`
}

// States of health.
const (
	healthOK       = "ok"
	healthDegraded = "degraded"
	healthDown     = "down"
	healthAway     = "away" // of the database
)

// Names of checks.
const (
	checkDatabase = "database" // it answers
	checkStore    = "store"    // it can be read
	checkCatalog  = "catalog"  // what was read of it is still there
	checkDisk     = "disk"     // the data directory has room
	checkUploads  = "uploads"  // there is room for new batches
)

const (
	// healthWait is how long a check may take.
	healthWait = 2 * time.Second
	// healthKept is how long its result is given to whoever asks.
	healthKept = 3 * time.Second
	// leastFree is how much room a data directory needs, in bytes, to count as not full.
	leastFree = 16 << 20
)

// checkup looks at one thing, at most once in a while however many ask. One look at a time is under way: what
// hangs is not asked again and again.
type checkup struct {
	name string
	look func(context.Context) error
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	result HealthCheck
	done   chan struct{} // closed at the end of the look that is under way; nil: none is
}

// advice is what a check tells people; of other errors only the log tells, as they may name hosts and paths.
type advice string

func (a advice) Error() string { return string(a) }

// get gives the result of a look that is not old.
func (c *checkup) get() HealthCheck {
	c.mu.Lock()
	if c.done == nil && time.Since(c.result.Checked) >= healthKept {
		c.done = make(chan struct{})
		go c.run(c.done)
	}
	done, last := c.done, c.result
	c.mu.Unlock()
	if done == nil {
		return last
	}
	timeout := time.NewTimer(healthWait)
	defer timeout.Stop()
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.result
	case <-timeout.C:
		return HealthCheck{Name: c.name, Status: healthDown, Detail: fmt.Sprintf("has not answered for %v", healthWait), Checked: time.Now()}
	}
}

func (c *checkup) run(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), healthWait)
	defer cancel()
	err := c.look(ctx)
	result := HealthCheck{Name: c.name, Status: healthOK, Checked: time.Now()}
	if err != nil {
		result.Status, result.Detail = healthDown, "does not work; the service's log says why"
		var a advice
		switch {
		case errors.As(err, &a):
			result.Detail = a.Error()
		case errors.Is(err, context.DeadlineExceeded):
			result.Detail = fmt.Sprintf("has not answered for %v", healthWait)
		}
	}
	c.mu.Lock()
	was := c.result.Status
	c.result, c.done = result, nil
	c.mu.Unlock()
	close(done)
	switch {
	case err != nil && was != healthDown:
		c.log.Error("health: a check failed", "check", c.name, "err", err)
	case err == nil && was == healthDown:
		c.log.Info("health: well again", "check", c.name)
	}
}

// checkups are what this process has to look at.
func (s *Service) checkups() []*checkup {
	add := func(name string, look func(context.Context) error) *checkup {
		return &checkup{name: name, look: look, log: s.log}
	}
	all := []*checkup{
		add(checkDatabase, s.checkDatabase),
		add(checkStore, s.checkStore()),
		add(checkDisk, s.checkDisk),
	}
	if s.catalog != nil {
		all = append(all, add(checkCatalog, s.catalog.Check))
	}
	if s.receiver != nil {
		all = append(all, add(checkUploads, s.checkUploads))
	}
	return all
}

func (s *Service) checkDatabase(ctx context.Context) error {
	var n int
	return s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM service_key`).Scan(&n)
}

// checkStore looks whether the store can be read and, if it is a directory, is the one that was opened.
func (s *Service) checkStore() func(context.Context) error {
	dir, local := s.cfg.StoreDir()
	opened, openErr := os.Stat(dir)
	return func(ctx context.Context) error {
		if local {
			now, err := os.Stat(dir)
			if errors.Is(err, fs.ErrNotExist) || err == nil && openErr == nil && !os.SameFile(opened, now) {
				return advice("the store's directory is gone, or another is in its place; is its disk mounted?")
			}
			if err := errors.Join(openErr, err); err != nil {
				return err
			}
		}
		for _, err := range s.objects.List(ctx, "catalog/", "") {
			return err // one is enough
		}
		return nil
	}
}

func (s *Service) checkDisk(context.Context) error {
	room, err := space.RoomOn(s.cfg.Data)
	if err != nil {
		return err
	}
	if room.Free < leastFree || room.Files > 0 && room.FreeFiles == 0 {
		return advice(fmt.Sprintf("the disk of the data directory is full: %d bytes and %d files are left", room.Free, room.FreeFiles))
	}
	return nil
}

func (s *Service) checkUploads(context.Context) error {
	why, err := s.receiver.Stopped()
	if err == nil && why != "" {
		err = advice(why)
	}
	return err
}

// needs are the checks without which a role cannot work. Serve goes on while the database is away,
// with the accounts that it knows (access.offline).
func (s *Service) needs(role string) []string {
	switch role {
	case roleManager:
		return []string{checkDatabase, checkDisk}
	case roleIngest:
		return []string{checkDatabase, checkDisk, checkStore, checkCatalog, checkUploads}
	}
	if s.cfg.Access.Offline > 0 {
		return []string{checkStore, checkCatalog}
	}
	return []string{checkDatabase, checkStore, checkCatalog}
}

// look looks at everything at once.
func (s *Service) look() Health {
	h := Health{Status: healthOK, Roles: s.cfg.Roles, Ready: make(map[string]string), Database: healthOK, Checks: make([]HealthCheck, len(s.checks)), Version: Version()}
	var all sync.WaitGroup
	for i, c := range s.checks {
		all.Go(func() { h.Checks[i] = c.get() })
	}
	all.Wait()
	down := make(map[string]bool)
	for _, c := range h.Checks {
		down[c.Name] = c.Status != healthOK
	}
	if down[checkDatabase] {
		h.Database = healthAway
	}
	ready := 0
	for _, role := range h.Roles {
		h.Ready[role] = healthDown
		if !slices.ContainsFunc(s.needs(role), func(check string) bool { return down[check] }) {
			h.Ready[role] = healthOK
			ready++
		}
	}
	switch {
	case ready == 0:
		h.Status = healthDown
	case ready < len(h.Roles) || slices.ContainsFunc(h.Checks, func(c HealthCheck) bool { return c.Status != healthOK }):
		h.Status = healthDegraded
	}
	if s.archives != nil {
		h.DamagedRecords = s.archives.Damaged()
	}
	return h
}

// asked gives the status code: 200 where the process can work in all of its roles, or in the one
// that ?role= names.
func (h *Health) asked(r *http.Request) int {
	roles := h.Roles
	if role := r.URL.Query().Get("role"); role != "" {
		roles = []string{role}
	}
	for _, role := range roles {
		if h.Ready[role] != healthOK {
			return http.StatusServiceUnavailable
		}
	}
	return http.StatusOK
}

func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	h := s.look()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(h.asked(r))
	if err := json.NewEncoder(w).Encode(h); err != nil {
		s.log.Debug("health: the asker is gone", "err", err)
	}
}

func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	h := s.look()
	s.word(w, h.asked(r), h.Status)
}

func (s *Service) live(w http.ResponseWriter, _ *http.Request) { s.word(w, http.StatusOK, healthOK) }

func (s *Service) word(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, word)
}

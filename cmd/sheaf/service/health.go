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

	"github.com/gorilla/mux"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/route"
	"sheaf/serve"
	"sheaf/ui/board"
)

// Health is the body of GET /healthz.
type Health struct {
	Status   string            `json:"status"` // ok; degraded: works in some of its roles; down: works in none
	Roles    []string          `json:"roles"`
	Ready    map[string]string `json:"ready"`    // by role: ok or down
	Database string            `json:"database"` // ok, or away
	Checks   []HealthCheck     `json:"checks"`
	// DamagedRecords counts the requests since the start that met damaged stored records.
	DamagedRecords int64  `json:"damaged_records"`
	Version        string `json:"version"`
}

// HealthCheck is the result of one check.
type HealthCheck struct {
	Name    string    `json:"name"`             // database, clock, store, catalog, disk, uploads, key, leases or certificates
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

// Names of the health checks, and what each of them checks.
const (
	checkDatabase     = "database"     // it answers
	checkStore        = "store"        // it can be read
	checkCatalog      = "catalog"      // what was read of it is still valid
	checkClock        = "clock"        // the machine's clock is near the database's; only with PostgreSQL
	checkDisk         = "disk"         // the data directory has room
	checkUploads      = "uploads"      // there is room for new batches
	checkKey          = "key"          // the process can sign with the service's key; only in processes that sign
	checkLeases       = "leases"       // a majority of the quorum answers; only if a quorum grants leases
	checkCertificates = "certificates" // each is valid and can be replaced; only if there are any
)

const (
	healthWait = 2 * time.Second // for one check; see Config.Slower
	healthKept = 3 * time.Second // how long a result is reused
	leastFree  = 16 << 20        // bytes; a data directory with less counts as full
)

// checkup is one check. A result is reused for healthKept, however many clients ask. Only one run
// of the check is under way at a time, so that a part that hangs is not asked again and again.
type checkup struct {
	name string
	look func(context.Context) error
	wait time.Duration // time limit of one run
	log  *slog.Logger

	mu     sync.Mutex // guards the fields below
	result HealthCheck
	done   chan struct{} // closed when the run under way ends; nil: none is under way
}

// advice is an error whose text anybody may see. Other errors may name hosts and paths, so their
// text goes only to the log.
type advice string

func (a advice) Error() string { return string(a) }

// get returns the result of a recent run, or waits for a new one. A run beyond its time limit
// counts as down.
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
	timeout := time.NewTimer(c.wait)
	defer timeout.Stop()
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.result
	case <-timeout.C:
		return HealthCheck{Name: c.name, Status: healthDown, Detail: fmt.Sprintf("has not answered for %v", c.wait), Checked: time.Now()}
	}
}

func (c *checkup) run(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), c.wait)
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
			result.Detail = fmt.Sprintf("has not answered for %v", c.wait)
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
		c.log.Info("health: a check succeeds again", "check", c.name)
	}
}

// health has the checks of a process, for load balancers and monitoring.
type health struct {
	log     *slog.Logger
	roles   []string
	offline bool          // roleServe works while the database is away
	wait    time.Duration // for one check
	checks  []*checkup
	clock   *db.Clock    // nil: there is only the machine's clock
	damaged func() int64 // number of requests for damaged records; nil: there can be none
}

// newHealth returns the health of a process without its rooms. watchCatalog and watchUploads add
// the rooms' checks.
func newHealth(cfg *Config, s *state, log *slog.Logger) *health {
	h := &health{log: log, roles: cfg.Roles, offline: cfg.Serve.Access.Offline > 0, wait: healthWait * time.Duration(max(1, cfg.Slower))}
	h.add(checkDatabase, func(ctx context.Context) error {
		var n int
		return s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM service_key`).Scan(&n)
	})
	dir, local := cfg.StoreDir()
	if !local {
		dir = ""
	}
	h.add(checkStore, storeCheck(s.objects, dir))
	if cfg.Database.URL != "" {
		h.clock = s.clock
		h.add(checkClock, func(ctx context.Context) error { return compareClocks(ctx, s.clock) })
	}
	h.add(checkDisk, func(context.Context) error { return checkRoom(cfg.Data) })
	if s.keys != nil {
		h.add(checkKey, s.checkSigning)
	}
	if members, ok := s.leasing.(interface{ Check(context.Context) error }); ok { // leases of a quorum
		h.add(checkLeases, func(ctx context.Context) error { return checkQuorum(ctx, members.Check) })
	}
	return h
}

func (h *health) add(name string, look func(context.Context) error) {
	h.checks = append(h.checks, &checkup{name: name, look: look, wait: h.wait, log: h.log})
}

func (h *health) watchCatalog(room *serve.Room) {
	h.add(checkCatalog, room.Catalog.Check)
	h.damaged = room.Library.Records.Damaged
}

// watchUploads adds the check of uploads. stopped returns why uploads are refused, or "".
func (h *health) watchUploads(stopped func() (why string, err error)) {
	h.add(checkUploads, func(context.Context) error {
		why, err := stopped()
		if err == nil && why != "" {
			err = advice(why)
		}
		return err
	})
}

// storeCheck returns a check that the store can be read. If the store is the directory dir, it must
// also be the same directory as at the start.
func storeCheck(objects store.Store, dir string) func(context.Context) error {
	opened, openErr := os.Stat(dir)
	return func(ctx context.Context) error {
		if dir != "" {
			now, err := os.Stat(dir)
			if errors.Is(err, fs.ErrNotExist) || err == nil && openErr == nil && !os.SameFile(opened, now) {
				return advice("the store's directory is gone, or another is in its place; is its disk mounted?")
			}
			if err := errors.Join(openErr, err); err != nil {
				return err
			}
		}
		for _, err := range objects.List(ctx, "catalog/", "") {
			return err // one object is enough
		}
		return nil
	}
}

// checkQuorum runs check in a part of the time limit, and adds advice to its error.
func checkQuorum(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, healthWait*3/4) // so that the answer comes before the check is late
	defer cancel()
	err := check(ctx)
	if err != nil {
		return errors.Join(err, advice("no majority of those who grant leases answers: nothing is published, planned or deleted until one does"))
	}
	return nil
}

// checkRoom returns an error if a directory's disk is full.
func checkRoom(dir string) error {
	room, err := files.RoomOn(dir)
	if err != nil {
		return err
	}
	if room.Free < leastFree || room.Files > 0 && room.FreeFiles == 0 {
		return advice(fmt.Sprintf("the disk of the data directory is full: %d bytes and %d files are left", room.Free, room.FreeFiles))
	}
	return nil
}

// needs returns the checks without which a role cannot work.
func (h *health) needs(role string) []string {
	switch role {
	case roleManager:
		return []string{checkDatabase, checkDisk, checkKey}
	case roleIngest:
		return []string{checkDatabase, checkDisk, checkStore, checkCatalog, checkUploads, checkKey}
	}
	if h.offline {
		return []string{checkStore, checkCatalog}
	}
	return []string{checkDatabase, checkStore, checkCatalog}
}

// lookEvery is the time between two runs of the checks that nobody has asked for.
const lookEvery = time.Minute

// keepLooking makes all checks regularly until ctx ends, so that the log reports failures even if
// nobody asks. The check of the clock corrects the time by which robots' leases end.
func (h *health) keepLooking(ctx context.Context) error {
	return loop.After(ctx, lookEvery, func(context.Context) error { h.look(); return nil }, nil)
}

// look gets the results of all checks, at the same time.
func (h *health) look() Health {
	all := Health{Status: healthOK, Roles: h.roles, Ready: make(map[string]string), Database: healthOK, Checks: make([]HealthCheck, len(h.checks)), Version: Version()}
	var looks sync.WaitGroup
	for i, c := range h.checks {
		looks.Go(func() { all.Checks[i] = c.get() })
	}
	looks.Wait()
	down := make(map[string]bool)
	for _, c := range all.Checks {
		if c.Status != healthOK {
			down[c.Name] = true
		}
	}
	if down[checkDatabase] {
		all.Database = healthAway
	}
	ready := 0
	for _, role := range h.roles {
		all.Ready[role] = healthDown
		if !slices.ContainsFunc(h.needs(role), func(check string) bool { return down[check] }) {
			all.Ready[role] = healthOK
			ready++
		}
	}
	switch {
	case ready == 0:
		all.Status = healthDown
	case ready < len(h.roles) || len(down) > 0:
		all.Status = healthDegraded
	}
	if h.damaged != nil {
		all.DamagedRecords = h.damaged()
	}
	return all
}

// failing lists the checks that fail now, for the board.
func (h *health) failing(context.Context) (all []board.Failure) {
	for _, c := range h.look().Checks {
		if c.Status != healthOK {
			all = append(all, board.Failure{Kind: board.KindCheck, What: c.Name, Why: c.Detail, Path: api.PathHealth})
		}
	}
	return all
}

// down reports whether the check of that name has failed.
func (h *Health) down(name string) bool {
	return slices.ContainsFunc(h.Checks, func(c HealthCheck) bool { return c.Name == name && c.Status != healthOK })
}

// code returns the status code for a request: 200 if the process can work in all of its roles or,
// if ?role= names one, in that role.
func (h *Health) code(r *http.Request) int {
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

// roleQuery is the query of api.PathReady and api.PathHealth.
type roleQuery struct {
	Role string `query:"role" doc:"manager, ingest or serve: only of this role"`
}

const cannot = "It cannot"

// Operations for load balancers and monitoring.
var (
	live    = route.New[route.None, route.None]("GET", api.PathLive, route.Anybody, audit.None, "Whether the process works at all; else start it again").Answering(http.StatusOK, "It does").Sends("text/plain")
	ready   = route.New[roleQuery, route.None]("GET", api.PathReady, route.Anybody, audit.None, "Whether the process can do its work now; else send it nothing").Answering(http.StatusOK, "It can").Sends("text/plain").Also(http.StatusServiceUnavailable, "text/plain", cannot)
	healthy = route.New[roleQuery, Health]("GET", api.PathHealth, route.Anybody, audit.None, "Whether the process can do its work, and what was looked at: database, store, catalog, disk, uploads").Also(http.StatusServiceUnavailable, "application/json", cannot)
)

// register mounts the operations, for GET and HEAD.
func (h *health) register(r *mux.Router) {
	for op, serve := range map[*route.Route]http.HandlerFunc{live.Route: h.serveLive, ready.Route: h.serveReady, healthy.Route: h.serveHealth} {
		r.HandleFunc(op.Path, serve).Methods(http.MethodGet, http.MethodHead)
	}
}

func (h *health) serveHealth(w http.ResponseWriter, r *http.Request) {
	all := h.look()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	code := all.code(r)
	if all.down(checkLeases) && r.URL.Query().Get("role") != roleServe { // the process answers requests, so it is ready, but its work stands still
		code = http.StatusServiceUnavailable
	}
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(all); err != nil {
		h.log.DebugContext(r.Context(), "health: the client has gone", "err", err)
	}
}

func (h *health) serveReady(w http.ResponseWriter, r *http.Request) {
	all := h.look()
	writeWord(w, all.code(r), all.Status)
}

func (h *health) serveLive(w http.ResponseWriter, _ *http.Request) {
	writeWord(w, http.StatusOK, healthOK)
}

func writeWord(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, word)
}

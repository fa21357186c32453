package robotd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/robotd/datadir"
	"sheaf/robotd/identity"
	"sheaf/robotd/localsock"
	"sheaf/robotd/status"
)

// Monitor asks a robot's daemon, as its user, through its folder.
type Monitor struct {
	dir    string
	client *http.Client
}

// NewMonitor asks the robot whose folder it is.
func NewMonitor(dir string) *Monitor {
	m := &Monitor{dir: dir}
	m.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return localsock.Dial(ctx, m.path(controlSocket))
		},
	}}
	return m
}

// Status returns the robot's state, with so many hosts, or all where it is negative, and
// whether its daemon runs. Where it does not, the state is the last one known.
func (m *Monitor) Status(ctx context.Context, hosts int) (s status.Status, running bool, err error) {
	resp, err := m.do(ctx, http.MethodGet, fmt.Sprintf("%s?hosts=%d", pathStatus, hosts))
	if err == nil {
		defer resp.Body.Close()
		return s, true, json.NewDecoder(resp.Body).Decode(&s)
	}
	if ctx.Err() != nil {
		return s, false, ctx.Err()
	}
	if s, err = savedStatus(m.dir); err != nil {
		return s, false, err
	}
	running, err = m.running()
	return s, running, err
}

// SetPaused begins or ends the pause. It reports whether a daemon runs: where none does,
// the next one is told by the folder.
func (m *Monitor) SetPaused(ctx context.Context, on bool) (running bool, err error) {
	path := map[bool]string{true: pathPause, false: pathResume}[on]
	resp, err := m.do(ctx, http.MethodPost, path)
	if err == nil {
		return true, resp.Body.Close()
	}
	if _, missing := os.Stat(m.path(identity.File)); missing != nil {
		return false, fmt.Errorf("%s is no robot's folder: %w", m.dir, missing)
	}
	lock, locked := datadir.Lock(m.dir)
	if locked != nil {
		return true, fmt.Errorf("the daemon in %s does not answer: %w", m.dir, err)
	}
	defer lock.Close()
	var at time.Time
	if on {
		at = time.Now()
	}
	return false, writePause(m.path(pauseFile), at)
}

func (m *Monitor) do(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://robotd"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("robotd answers %s", resp.Status)
	}
	return resp, nil
}

func (m *Monitor) path(name string) string { return filepath.Join(m.dir, name) }

// running reports whether a daemon holds the folder.
func (m *Monitor) running() (bool, error) {
	lock, err := datadir.Lock(m.dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

package control

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

	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// Monitor is the client of a Server. It finds the daemon by the robot's data folder.
type Monitor struct {
	dir    string
	client *http.Client
}

// NewMonitor returns a monitor of the robot with the given data folder.
func NewMonitor(dir string) *Monitor {
	m := &Monitor{dir: dir}
	m.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return config.DialSocket(ctx, m.path(socket))
		},
	}}
	return m
}

// Status returns the robot's state and whether its daemon runs. hosts is how many hosts to
// describe; negative: all. If the daemon does not answer, the state is the last that it saved.
func (m *Monitor) Status(ctx context.Context, hosts int) (s Status, running bool, err error) {
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

// SetPaused begins or ends the pause. It reports whether a daemon runs. If none does, the change
// holds for the next daemon.
func (m *Monitor) SetPaused(ctx context.Context, on bool) (running bool, err error) {
	path := map[bool]string{true: pathPause, false: pathResume}[on]
	resp, err := m.do(ctx, http.MethodPost, path)
	if err == nil {
		return true, resp.Body.Close()
	}
	if _, missing := os.Stat(m.path(client.File)); missing != nil {
		return false, fmt.Errorf("%s is no robot's folder: %w", m.dir, missing)
	}
	lock, locked := config.Lock(m.dir)
	if locked != nil {
		return true, fmt.Errorf("the daemon in %s does not answer: %w", m.dir, err)
	}
	defer lock.Close()
	pause, err := polite.SitePause(m.dir)
	if err != nil {
		return false, err
	}
	_, err = pause.Set(on)
	return false, err
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

// running reports whether a daemon has locked the folder.
func (m *Monitor) running() (bool, error) {
	lock, err := config.Lock(m.dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// statusFile has the last known status, for when the robot does not run.
const statusFile = "status.json"

// SaveStatus writes the status for when the robot does not run.
func SaveStatus(dir string, s *Status) error {
	return config.NoteJSON(filepath.Join(dir, statusFile), s)
}

func savedStatus(dir string) (s Status, err error) {
	path := filepath.Join(dir, statusFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("no robot has run in %s yet", dir)
	}
	return s, config.LoadJSON(path, &s)
}

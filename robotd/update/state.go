package update

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Program is the program of a release on this machine.
type Program struct {
	Counter int64  `json:"counter"` // 0: none
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
}

// Trial is a program that has not shown yet that it works.
type Trial struct {
	Program
	Began  time.Time `json:"began,omitzero"` // time of the first start
	Starts int       `json:"starts"`
}

// Failure is a release that was tried and did not work.
type Failure struct {
	wire.FailedRelease
	At    time.Time `json:"at"`
	Tries int       `json:"tries"`
}

// state is the content of state.json. One process at a time writes it: the child, once it has
// reported to the manager, and the supervisor otherwise.
type state struct {
	Current Program   `json:"current"`         // the current program; counter 0: the installed one
	Trial   *Trial    `json:"trial,omitempty"` // program to start next
	Seen    int64     `json:"seen"`            // highest counter ever verified
	Text    string    `json:"text,omitempty"`  // SHA-256 of that release's text
	Expires time.Time `json:"expires,omitzero"`
	Failed  []Failure `json:"failed,omitempty"`
}

const stateFile = "state.json"

func load(dir string) (s state, err error) {
	return s, config.LoadJSON(filepath.Join(dir, stateFile), &s)
}

func (s *state) save(dir string) error { return config.SaveJSON(filepath.Join(dir, stateFile), s) }

// fail ends the trial and records why.
func (s *state) fail(why string, now time.Time) {
	t := s.Trial
	s.Trial = nil
	i := slices.IndexFunc(s.Failed, func(f Failure) bool { return f.Counter == t.Counter })
	if i < 0 {
		i = len(s.Failed)
		s.Failed = append(s.Failed, Failure{FailedRelease: wire.FailedRelease{Counter: t.Counter}})
	}
	f := &s.Failed[i]
	f.Why, f.At, f.Tries = why, now, f.Tries+1
	if n := len(s.Failed) - maxFailures; n > 0 {
		s.Failed = slices.Delete(s.Failed, 0, n)
	}
}

// maxFailures is the number of failed releases that are remembered.
const maxFailures = 20

// again reports whether a failed release may be tried once more: it gets a second chance after a
// day, as the manager may have been down during the trial.
func (s *state) again(counter int64, now time.Time) bool {
	for _, f := range s.Failed {
		if f.Counter == counter {
			return f.Tries < 2 && now.Sub(f.At) >= 24*time.Hour
		}
	}
	return true
}

func (p Program) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("robotd-%d", p.Counter))
}

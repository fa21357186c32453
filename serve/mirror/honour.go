package mirror

import (
	"fmt"
	"slices"

	"sheaf/archive"
	"sheaf/internal/preference"
)

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

package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/files"
)

// hosts does tasks concurrently. It first deletes what is gone, which does not need the service.
func (m *mirror) hosts(ctx context.Context, tasks []*task) error {
	err := m.every(ctx, tasks, func(_ context.Context, t *task) error { return m.forget(t) })
	if err == nil {
		err = m.every(ctx, tasks, m.host)
	}
	return errors.Join(err, m.place.prune())
}

// every calls do with each task, concurrently.
func (m *mirror) every(ctx context.Context, tasks []*task, do func(context.Context, *task) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * m.Parallel) // some settle while others are being fetched
	for _, t := range tasks {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, t) })
	}
	return g.Wait()
}

// forget deletes the files that are gone by the task's events, or all if the host is refused.
func (m *mirror) forget(t *task) error {
	refused := m.refused(t)
	if !t.all && len(t.gone) == 0 && !t.withdrawn && !refused {
		return nil
	}
	have, err := m.place.inHand(t.dir)
	if err != nil {
		return err
	}
	gone := func(name string) bool {
		if refused {
			return true
		}
		_, stays := t.wanted[name]
		return !stays && (t.all || t.gone[editionOf(name)]) || t.withdrawn && isChanging(name)
	}
	parts := func(name string) bool { return t.withdrawn || gone(name) } // a part may hold bytes that were withdrawn
	return errors.Join(m.drop(t, have, gone), m.place.abandon(t.dir, parts, ""))
}

// drop deletes the files that gone names, durably.
func (m *mirror) drop(t *task, have map[string]file, gone func(name string) bool) error {
	before := len(have)
	for name := range have {
		if !gone(name) {
			continue
		}
		if err := os.Remove(m.place.at(t.dir + name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(have, name)
		if _, replaced := t.wanted[name]; !replaced {
			m.deleted.Add(1)
			m.Reporter.Note(Note{Event: "deleted", Path: t.dir + name})
		}
	}
	if len(have) == before {
		return nil
	}
	return m.place.settle(t.dir, have)
}

// host does one task. If a file has changed since its event, host continues by the service's
// MANIFEST of the host. If a file cannot be fetched by that either, the host becomes pending.
func (m *mirror) host(ctx context.Context, t *task) error {
	if m.refused(t) {
		return m.refuse(t)
	}
	t.look = t.look || m.returns(t)
	err := m.attempt(ctx, t)
	if isOther(err) {
		t.look = true
		err = m.attempt(ctx, t)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		delete(m.state.Pending, t.dir)
		delete(m.state.Refused, t.dir)
		return nil
	case isOther(err) || errors.Is(err, errCorrupt):
		m.state.Pending[t.dir] = err.Error()
		delete(m.state.Refused, t.dir) // the next look fetches all files
		m.Reporter.Note(Note{Event: "pending", Path: t.dir, Why: err.Error()})
		return nil
	}
	return err
}

func isOther(err error) bool { return errors.Is(err, errGone) || errors.Is(err, errChanged) }

// attempt brings a host's directory up to date, as far as possible. If a file of an edition has
// changed, there was a take-down, so the old file is deleted before the new one is fetched. A file
// that changes with every edition stays until the new one takes its place, except in a pass from
// the beginning of the feed, because its events do not tell of all take-downs.
func (m *mirror) attempt(ctx context.Context, t *task) error {
	have, err := m.place.inHand(t.dir)
	if err != nil {
		return err
	}
	if t.look {
		if err := m.look(ctx, t); err != nil {
			return err
		}
	}
	err = m.drop(t, have, func(name string) bool {
		want, stays := t.wanted[name]
		if !stays {
			return t.look || !m.takes(name)
		}
		is := have[name]
		return is.ETag != "" && !want.same(is) && (!isChanging(name) || m.seen != nil)
	})
	if err != nil {
		return err
	}
	changed, err := m.fetchAll(ctx, t, have)
	switch {
	case len(have) == 0:
		m.place.bare(t.dir)
	case changed:
		err = errors.Join(err, m.place.settle(t.dir, have))
	}
	m.remember(t)
	return err
}

// look sets t.wanted by the service's MANIFEST of the host: to nothing if the host is gone.
func (m *mirror) look(ctx context.Context, t *task) error {
	t.wanted = map[string]file{}
	var data []byte
	err := m.insist(ctx, &m.files, func() error {
		f, err := m.remote.open(ctx, t.dir+manifestFile, 0, "")
		if err != nil {
			return err
		}
		data, err = io.ReadAll(io.LimitReader(f.Body, maxText+1))
		if closed := f.Body.Close(); err == nil {
			err = closed
		}
		switch {
		case err == nil && len(data) > maxText:
			err = fmt.Errorf("%s%s: %w: it has more than %d bytes", t.dir, manifestFile, errCorrupt, maxText)
		case err == nil && f.Size >= 0 && int64(len(data)) != f.Size:
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if errors.Is(err, errGone) {
		return nil // the host is gone too
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		var f file
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			return fmt.Errorf("%s%s: %w: %v", t.dir, manifestFile, errCorrupt, err)
		}
		if m.takes(f.Path) {
			t.wanted[f.Path] = f
		}
	}
	return nil
}

// fetchAll fetches the wanted files and adds them to have. If one fails, it goes on with the
// others.
func (m *mirror) fetchAll(ctx context.Context, t *task, have map[string]file) (changed bool, err error) {
	var missing []file
	for name, want := range t.wanted {
		is, known := have[name]
		info, err := os.Lstat(m.place.at(t.dir + name))
		switch {
		case !known, !want.same(is), err != nil, !info.Mode().IsRegular(), info.Size() != want.Size:
			missing = append(missing, want)
		case !is.Modified.Equal(want.Modified): // published anew
			if err := os.Chtimes(m.place.at(t.dir+name), want.Modified, want.Modified); err != nil {
				return changed, err
			}
			have[name], changed = want, true
		}
	}
	if len(missing) == 0 {
		return changed, nil
	}
	slices.SortFunc(missing, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	if err := files.MkdirAll(m.place.at(t.dir), 0o755); err != nil {
		return changed, err
	}
	var mu sync.Mutex // guards what follows, and have
	var failed []error
	g := new(errgroup.Group)
	g.SetLimit(m.Parallel)
	for _, want := range missing {
		g.Go(func() error {
			err := m.fetch(ctx, t.dir, want, func() error {
				mu.Lock()
				defer mu.Unlock()
				if have[want.Path].ETag == "" {
					return nil
				}
				delete(have, want.Path) // a MANIFEST must not name the old file while the new one takes its place
				changed = true
				return m.place.settle(t.dir, have)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("%s%s: %w", t.dir, want.Path, err))
				return nil
			}
			have[want.Path] = want
			changed = true
			return nil
		})
	}
	_ = g.Wait() // they report into failed
	for _, err := range failed {
		if !isOther(err) && !errors.Is(err, errCorrupt) {
			return changed, err
		}
	}
	if len(failed) > 0 {
		return changed, failed[0]
	}
	return changed, nil
}

// remember records the files of a task during a pass from the beginning of the feed.
func (m *mirror) remember(t *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		return
	}
	for name := range t.wanted {
		m.seen[mark(t.dir+name)] = struct{}{}
	}
}

func mark(path string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, path)
	return h.Sum64()
}

// sweep deletes the files of which the feed, from its beginning to its end, has said nothing.
func (m *mirror) sweep() error {
	dirs, err := m.place.hosts()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, pending := m.state.Pending[dir]; pending || volumesDir.MatchString(dir) {
			continue
		}
		have, err := m.place.inHand(dir)
		if err != nil {
			return err
		}
		err = m.drop(&task{dir: dir}, have, func(name string) bool {
			_, told := m.seen[mark(dir+name)]
			return !told
		})
		if err != nil {
			return err
		}
	}
	return m.place.prune()
}

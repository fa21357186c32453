package mirror

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/serve/client"
)

var (
	errChanged = errors.New("is another than was told")
	errCorrupt = errors.New("arrived damaged")
	errShort   = fmt.Errorf("ends early: %w", io.ErrUnexpectedEOF)
)

// damages is how often a file may arrive damaged before the mirror goes on with other files.
const damages = 3

// chunk is how many bytes are read at once.
const chunk = 64 << 10

// fetch fetches and verifies one file, and gives it its name at the end. It continues an earlier
// download of the file. Before the file may replace another one, replace is called. The name is not
// durable yet; see place.settle.
func (m *mirror) fetch(ctx context.Context, dir string, want file, replace func() error) error {
	name := m.place.at(dir + want.Path)
	ok, err := verify(name, want)
	if err != nil {
		return err
	}
	if ok { // an earlier run was killed between the file and the MANIFEST
		return nil
	}
	partial := m.place.own(filepath.Join(partialDir, partialName(dir, want)))
	err = m.place.abandon(dir, func(name string) bool { return name == want.Path }, filepath.Base(partial))
	if err != nil {
		return err
	}
	for damaged := 0; ; {
		err := m.insist(ctx, &m.files, func() error { return m.download(ctx, dir, want, partial) })
		if errors.Is(err, errCorrupt) {
			if damaged++; damaged < damages {
				m.Reporter.Note(Note{Event: "damaged", Path: dir + want.Path, Why: err.Error()})
				continue
			}
		}
		if err != nil {
			return err
		}
		break
	}
	if err := replace(); err != nil {
		return err
	}
	if err := finish(partial, name, want); err != nil {
		return err
	}
	m.fetched.Add(1)
	return nil
}

// finish gives a complete file its time and its name.
func finish(partial, name string, want file) error {
	f, err := os.Open(partial)
	if err != nil {
		return err
	}
	err = os.Chtimes(partial, want.Modified, want.Modified)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(partial, name)
}

// partialName returns the name of a file while it is downloaded. It contains a digest of the ETag,
// so that a download of other content does not continue this one.
func partialName(dir string, want file) string {
	return partialPrefix(dir) + want.Path + "." + short(want.ETag+" "+want.SHA256)
}

// partialPrefix returns the prefix of the partial names of a host.
func partialPrefix(dir string) string { return short(dir) + "." }

func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// download fetches what is missing of a file and verifies the whole. If it fails, what has arrived
// is kept, unless that is damaged or of another version.
func (m *mirror) download(ctx context.Context, dir string, want file, partial string) (err error) {
	select {
	case m.slots <- struct{}{}:
		defer func() {
			if later, ok := errors.AsType[*laterError](err); ok {
				_ = m.shut(&m.files, later) // before another download has the slot; insist tells the error
			}
			<-m.slots
		}()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.files.wait(ctx); err != nil { // it may have shut while this waited for a slot
		return err
	}
	out, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, errCorrupt) || errors.Is(err, errChanged) {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	sum := sha256.New()
	from, err := io.Copy(sum, out)
	if err != nil {
		return err
	}
	if from > want.Size {
		return fmt.Errorf("%w: %d bytes are more than its %d", errCorrupt, from, want.Size)
	}
	bar := m.Reporter.Begin(dir+want.Path, want.Size, from)
	defer func() { bar.End(err) }()
	if from < want.Size || want.Size == 0 {
		if err := m.transfer(ctx, dir, want, out, sum, from, bar); err != nil {
			return err
		}
	}
	return whole(out, sum, want)
}

// transfer copies a file from a byte on, or from its beginning if the service does not continue it.
func (m *mirror) transfer(ctx context.Context, dir string, want file, out *os.File, sum hash.Hash, from int64, bar Bar) error {
	f, err := m.remote.open(ctx, dir+want.Path, from, want.ETag)
	if err != nil {
		return err
	}
	err = m.receive(ctx, f, want, out, sum, from, bar)
	closed := f.Body.Close()
	switch {
	case err == nil:
		err = closed
	case err == errShort && closed == nil: // the service says that this was everything
		err = errChanged
	}
	return err
}

func (m *mirror) receive(ctx context.Context, f *client.File, want file, out *os.File, sum hash.Hash, from int64, bar Bar) error {
	if f.ETag != "" && f.ETag != want.ETag || f.Size >= 0 && f.Size != want.Size {
		return errChanged
	}
	if f.From != from {
		if err := out.Truncate(f.From); err != nil {
			return err
		}
		if _, err := out.Seek(f.From, io.SeekStart); err != nil {
			return err
		}
		sum.Reset() // at the beginning: a service may not choose another place
		bar.Add(f.From - from)
	}
	at := f.From
	buffer := make([]byte, chunk)
	for {
		n, err := f.Body.Read(buffer)
		if n > 0 {
			m.touch()
			if m.limit != nil {
				if err := m.limit.WaitN(ctx, n); err != nil {
					return err
				}
			}
			if at += int64(n); at > want.Size {
				return errChanged
			}
			sum.Write(buffer[:n])
			if _, err := out.Write(buffer[:n]); err != nil {
				return err
			}
			m.bytes.Add(int64(n))
			bar.Add(int64(n))
		}
		if err == io.EOF && at < want.Size {
			return errShort
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// whole verifies a file that has all its bytes: by its digest or, if the service has none, by the
// checksums in the gzip file.
func whole(f *os.File, sum hash.Hash, want file) error {
	if want.SHA256 != "" {
		if got := hex.EncodeToString(sum.Sum(nil)); got != strings.ToLower(want.SHA256) {
			return fmt.Errorf("%w: its SHA-256 is %s, want %s", errCorrupt, got, want.SHA256)
		}
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := gzip.NewReader(f)
	if err == nil {
		_, err = io.Copy(io.Discard, z)
	}
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		return fmt.Errorf("%w: %v", errCorrupt, err)
	}
	return err
}

// verify reports whether the wanted file is there, by its SHA-256; false if that is not known: the
// file may be undamaged, but another one.
func verify(name string, want file) (bool, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || info.Size() != want.Size || want.SHA256 == "":
		return false, nil
	}
	return sound(name, want)
}

// sound reports whether a file is still as it was fetched.
func sound(name string, f file) (bool, error) {
	in, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, in)
	if err != nil || n != f.Size {
		return false, err
	}
	err = whole(in, sum, f)
	if errors.Is(err, errCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// check reads all files again. It deletes damaged ones, and marks their hosts as pending.
func (m *mirror) check(ctx context.Context) error {
	dirs, err := m.place.hosts()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		have, err := m.place.inHand(dir)
		if err != nil {
			return err
		}
		before := len(have)
		for name, f := range have {
			if err := ctx.Err(); err != nil {
				return err
			}
			ok, err := sound(m.place.at(dir+name), f)
			if err != nil {
				return err
			}
			if ok {
				continue
			}
			m.Reporter.Note(Note{Event: "damaged", Path: dir + name, Why: "is not what was fetched"})
			if err := os.Remove(m.place.at(dir + name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			delete(have, name)
		}
		if len(have) < before {
			m.state.Pending[dir] = "was damaged here"
			if err := m.place.save(m.state); err != nil { // before the MANIFEST loses the file
				return err
			}
			if err := m.place.settle(dir, have); err != nil {
				return err
			}
		}
	}
	return m.place.prune()
}

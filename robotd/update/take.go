package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"aead.dev/minisign"

	"sheaf/internal/files"
	"sheaf/internal/wire"
)

var (
	// ErrStaged says that a new program is ready: the robot should end, so that the supervisor can
	// start it.
	ErrStaged = errors.New("a new program lies ready")
	// ErrReplayed says that the release is older than one that was seen.
	ErrReplayed = errors.New("the release is older than one that this robot has seen")
	// ErrTwoFaced says that two releases have the same counter.
	ErrTwoFaced = errors.New("another release with the same counter was seen")
)

// Platform is the platform of this program, in the form that releases use.
const Platform = runtime.GOOS + "-" + runtime.GOARCH

// fetchTime is the time-out for fetching a program; the next try continues.
const fetchTime = 30 * time.Minute

// Updater is the child's part of an update. Its methods must not be called concurrently.
type Updater struct {
	Dir    string             // folder update/
	Key    minisign.PublicKey // of the operators, to verify releases
	Base   string             // URL of the service
	Client *http.Client       // which may go through a proxy
	Parent Parent
}

// Report returns what to report to the manager about this program.
func (u *Updater) Report(version string) (wire.ReportRequest, error) {
	s, err := load(u.Dir)
	if err != nil {
		return wire.ReportRequest{}, err
	}
	r := wire.ReportRequest{Version: version, Platform: Platform, Counter: u.Parent.Counter, Seen: s.Seen}
	for _, f := range s.Failed {
		if f.Counter > u.Parent.Counter {
			r.Failed = append(r.Failed, f.FailedRelease)
		}
	}
	return r, nil
}

// Take verifies an offered release and fetches its program. It returns ErrStaged when the program
// is ready, and nil if there is nothing to do.
func (u *Updater) Take(ctx context.Context, offer wire.Offer) error {
	now := time.Now()
	r, err := wire.OpenRelease([]byte(offer.Release), []byte(offer.Signature), u.Key, now)
	if err != nil {
		return err
	}
	s, err := load(u.Dir)
	if err != nil {
		return err
	}
	text := wire.Digest([]byte(offer.Release))
	switch {
	case r.Counter < max(s.Seen, u.Parent.Counter):
		return fmt.Errorf("%w: %d after %d", ErrReplayed, r.Counter, max(s.Seen, u.Parent.Counter))
	case r.Counter == s.Seen && text != s.Text:
		return fmt.Errorf("%w: %d", ErrTwoFaced, r.Counter)
	case r.Counter == u.Parent.Counter:
		return nil
	case s.Trial != nil && s.Trial.Counter == u.Parent.Counter:
		return nil // the supervisor still writes the state during this program's own trial
	case !s.again(r.Counter, now):
		return fmt.Errorf("the release was tried and put back: %d", r.Counter)
	}
	file, ok := r.File(Platform)
	if !ok {
		return fmt.Errorf("release %d has no program for %s", r.Counter, Platform)
	}
	if r.Counter > s.Seen { // before fetching: from now on nothing older is accepted
		s.Seen, s.Text, s.Expires = r.Counter, text, r.Expires
		if err := s.save(u.Dir); err != nil {
			return err
		}
	}
	p := Program{Counter: r.Counter, Version: r.Version, SHA256: file.SHA256}
	if err := u.fetch(ctx, p, file); err != nil {
		return fmt.Errorf("release %d: %w", r.Counter, err)
	}
	s.Trial = &Trial{Program: p}
	if err := s.save(u.Dir); err != nil {
		return err
	}
	return fmt.Errorf("%w: release %d, version %s", ErrStaged, r.Counter, r.Version)
}

// fetch fetches the program to its path, complete and durable.
func (u *Updater) fetch(ctx context.Context, p Program, file wire.ReleaseFile) error {
	path := p.path(u.Dir)
	if holds(path, file.SHA256) == nil {
		return nil
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := u.download(ctx, f, p.Counter, file); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := holds(part, file.SHA256); err != nil {
		os.Remove(part) // the partial file cannot be continued
		return err
	}
	return files.Rename(part, path)
}

// download appends the missing part of the program to f.
func (u *Updater) download(ctx context.Context, f *os.File, counter int64, file wire.ReleaseFile) error {
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil || have == file.Size {
		return err
	}
	if have > file.Size {
		have = 0
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	url := u.Base + wire.PathReleases + "/" + strconv.FormatInt(counter, 10) + "/" + wire.ProgramName(Platform)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := u.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		have = 0
	case http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-%d/%d", have, file.Size-1, file.Size); resp.Header.Get("Content-Range") != want {
			os.Remove(f.Name())
			return fmt.Errorf("GET %s: Content-Range %q, want %q", url, resp.Header.Get("Content-Range"), want)
		}
	default:
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, file.Size-have))
	if err != nil {
		return fmt.Errorf("GET %s: after %d of %d bytes: %w", url, have+n, file.Size, err)
	}
	if have+n != file.Size {
		return fmt.Errorf("GET %s: it has %d bytes, want %d", url, have+n, file.Size)
	}
	return nil
}

// holds returns nil if the file at path has that SHA-256.
func holds(path, digest string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, _, err := wire.DigestOf(f)
	if err == nil && got != digest {
		err = fmt.Errorf("%s: its SHA-256 is %s, want %s", filepath.Base(path), got, digest)
	}
	return err
}

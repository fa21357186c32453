package roster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"sheaf/archive/store"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// ReleasePrefix begins the keys of the robots' programs in the object store. The keys are
// releases/programs/<SHA-256>.
const ReleasePrefix = "releases/"

func programKey(digest string) string { return ReleasePrefix + "programs/" + digest }

// TakeProgram stores a program, durably, under its SHA-256. It does nothing if the store already
// has the program.
func (s *Releases) TakeProgram(ctx context.Context, digest string, r io.Reader) error {
	if !wire.ValidDigest(digest) {
		return Bad{fmt.Errorf("%q is not a SHA-256 in lower-case hexadecimal", digest)}
	}
	// The store needs the size first and must not get a damaged program, so a temporary file comes
	// before it.
	f, err := files.Nameless("")
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, sum), r)
	if err != nil {
		return fmt.Errorf("program %s: %w", digest, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return Bad{fmt.Errorf("program %s: %w: its SHA-256 is %s", digest, ErrProgram, got)}
	}
	err = s.objects.Put(ctx, programKey(digest), io.NewSectionReader(f, 0, size), size)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("program %s: %w", digest, err)
	}
	return nil
}

// taken reports whether the store has a release's program, at its full size.
func (s *Releases) taken(ctx context.Context, f wire.ReleaseFile) (bool, error) {
	info, err := s.objects.Stat(ctx, programKey(f.SHA256))
	if errors.Is(err, store.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size == f.Size, err
}

// Program opens a release's program. The caller must close it.
func (s *Releases) Program(ctx context.Context, f wire.ReleaseFile) *ReleasedProgram {
	return &ReleasedProgram{ctx: ctx, objects: s.objects, key: programKey(f.SHA256), size: f.Size}
}

// ReleasedProgram is an io.ReadSeekCloser over an object. It is for one goroutine.
type ReleasedProgram struct {
	ctx     context.Context // of the request, because io.Reader has no parameter for it
	objects store.Store
	key     string
	size    int64
	at      int64
	open    io.ReadCloser // reads the object from at on; nil before the first Read
}

// Read implements io.Reader. It opens the object when needed.
func (p *ReleasedProgram) Read(b []byte) (n int, err error) {
	if p.at >= p.size {
		return 0, io.EOF
	}
	if p.open == nil {
		if p.open, err = p.objects.Open(p.ctx, p.key, p.at, p.size-p.at); err != nil {
			return 0, err
		}
	}
	n, err = p.open.Read(b)
	p.at += int64(n)
	return n, err
}

// Seek implements io.Seeker. It closes the object if the position changes.
func (p *ReleasedProgram) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += p.at
	case io.SeekEnd:
		offset += p.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("%s: seek to %d", p.key, offset)
	}
	if offset != p.at {
		if err := p.Close(); err != nil {
			return 0, err
		}
		p.at = offset
	}
	return offset, nil
}

// Close implements io.Closer. A later Read would open the object again.
func (p *ReleasedProgram) Close() error {
	if p.open == nil {
		return nil
	}
	err := p.open.Close()
	p.open = nil
	return err
}

package frontier

import (
	"fmt"
	"os"
)

// grower is a file that only grows. It is opened for each write, so that ten
// thousand hosts need no ten thousand descriptors.
type grower struct {
	path string
	size int64
}

func openGrower(path string) (*grower, error) {
	st, err := os.Stat(path)
	if os.IsNotExist(err) {
		return &grower{path: path}, nil
	}
	if err != nil {
		return nil, err
	}
	return &grower{path: path, size: st.Size()}, nil
}

// append writes p at the end. Where that fails half-way, the file is cut back,
// so that the next line does not continue a torn one.
func (g *grower) append(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	f, err := os.OpenFile(g.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(p, g.size); err != nil {
		if cut := f.Truncate(g.size); cut != nil {
			return fmt.Errorf("%w (and cutting back to %d bytes failed: %v)", err, g.size, cut)
		}
		return err
	}
	g.size += int64(len(p))
	return nil
}

func (g *grower) cut(size int64) error {
	if g.size == size {
		return nil
	}
	if err := os.Truncate(g.path, size); err != nil {
		return err
	}
	g.size = size
	return nil
}

// read returns up to n bytes from offset off.
func (g *grower) read(off, n int64) ([]byte, error) {
	n = min(n, g.size-off)
	if n <= 0 {
		return nil, nil
	}
	f, err := os.Open(g.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := make([]byte, n)
	if _, err := f.ReadAt(p, off); err != nil {
		return nil, err
	}
	return p, nil
}

func (g *grower) sync() error {
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

package frontier

import (
	"fmt"
	"io"
	"os"
)

// The files of a host are opened for each use, so that a hundred thousand hosts need no
// descriptors.

// appendAt writes p behind the first size bytes, where the file ends, and returns the new
// size. Where that fails half-way the file is cut back, so that the next line does not
// continue a torn one.
func appendAt(path string, size int64, p []byte) (int64, error) {
	if len(p) == 0 {
		return size, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return size, err
	}
	defer f.Close()
	if _, err := f.WriteAt(p, size); err != nil {
		if cut := f.Truncate(size); cut != nil {
			return size, fmt.Errorf("%w (and cutting back to %d bytes failed: %v)", err, size, cut)
		}
		return size, err
	}
	return size + int64(len(p)), nil
}

// readAt fills p from offset off as far as the file goes.
func readAt(path string, off int64, p []byte) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// cutTo cuts a file that may be missing and may be shorter.
func cutTo(path string, size int64) error {
	old, err := fileSize(path)
	if err != nil || old <= size {
		return err
	}
	return os.Truncate(path, size)
}

// fileSize is 0 for a file that is not there.
func fileSize(path string) (int64, error) {
	st, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

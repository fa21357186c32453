package frontier

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sheaf/internal/files"
)

// A host's files are opened for each use, so that a hundred thousand hosts need no file
// descriptors.

// filePath returns the path of one of a host's files of a cycle.
func filePath(dir string, cycle int64, kind string) string {
	return filepath.Join(dir, fmt.Sprintf("%d.%s", cycle, kind))
}

// appendAt writes p behind the first size bytes of a file, as files.AppendAt does, and returns the
// new size.
func appendAt(path string, size int64, p []byte) (int64, error) {
	if len(p) == 0 {
		return size, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return size, err
	}
	defer f.Close()
	if err := files.AppendAt(f, size, p); err != nil {
		return size, err
	}
	return size + int64(len(p)), nil
}

// readAt reads into p from offset off, up to the end of the file.
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

// cutTo truncates a file that is longer than size. The file may be missing.
func cutTo(path string, size int64) error {
	old, err := fileSize(path)
	if err != nil || old <= size {
		return err
	}
	return os.Truncate(path, size)
}

// fileSize returns the size of a file, or 0 if the file is missing.
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

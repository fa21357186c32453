package files

import (
	"fmt"
	"io"
	"os"
)

// Append appends p to a file that was not opened with O_APPEND. If that fails, as on a full disk,
// Append removes the written part of p, so that a later Append does not continue a torn line.
func Append(f *os.File, p []byte) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return AppendAt(f, size, p)
}

// AppendAt is Append for a file in which only the first size bytes count. It overwrites the bytes
// after them.
func AppendAt(f *os.File, size int64, p []byte) error {
	_, err := f.WriteAt(p, size)
	if err == nil {
		return nil
	}
	if cut := f.Truncate(size); cut != nil {
		return fmt.Errorf("%w (and cutting %s back to %d bytes failed: %v)", err, f.Name(), size, cut)
	}
	return err
}

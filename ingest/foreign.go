package ingest

import (
	"archive/tar"
	"compress/gzip"
	"io"
)

// foreignEntries counts the entries of an ordinary tar.gz and reads it to its very
// end, so that gzip's checksum and length have been compared when it returns nil.
// io.ErrUnexpectedEOF says that it is cut off.
func foreignEntries(r io.Reader) (n int, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return 0, cutOff(err)
	}
	t := tar.NewReader(z)
	for {
		if _, err := t.Next(); err == io.EOF {
			break
		} else if err != nil {
			return n, err
		}
		n++
	}
	_, err = io.Copy(io.Discard, z)
	return n, err
}

// cutOff tells a gzip head that is cut off.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

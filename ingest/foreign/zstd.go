package foreign

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A .warc.zst (https://iipc.github.io/warc-specifications/specifications/warc-zstd/) has a
// Zstandard frame for each record. If they need a dictionary, it is in a skippable frame that comes
// first.
const (
	zstdMagic       = "\x28\xb5\x2f\xfd"
	dictionaryMagic = "\x5d\x2a\x4d\x18"

	maxDictionary = 16 << 20  // bytes, inflated
	maxWindow     = 128 << 20 // bytes of memory that a frame may ask for, as the zstd command allows
)

// isZstd reports whether a file begins with a frame of Zstandard, or with a dictionary.
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, []byte(zstdMagic)) || bytes.HasPrefix(head, []byte(dictionaryMagic))
}

// newZstd returns a reader of the Zstandard file that raw reads. Each frame's checksum is checked,
// if it has one.
func newZstd(raw *bufio.Reader) (io.ReadCloser, error) {
	// One core at a time: decoding takes little of what the conversion takes.
	opt := []zstd.DOption{zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1)}
	dictionary, err := readDictionary(raw)
	if err != nil {
		return nil, err
	}
	if dictionary != nil {
		opt = append(opt, zstd.WithDecoderDicts(dictionary))
	}
	d, err := zstd.NewReader(raw, opt...)
	if err != nil {
		return nil, fmt.Errorf("zstd: %v", err)
	}
	return d.IOReadCloser(), nil
}

// readDictionary reads the dictionary at a file's beginning. It may be a Zstandard frame itself. If
// there is none, it returns nil.
func readDictionary(raw *bufio.Reader) ([]byte, error) {
	const header = len(dictionaryMagic) + 4
	head, err := raw.Peek(header)
	if !bytes.HasPrefix(head, []byte(dictionaryMagic)) {
		return nil, nil
	}
	if err != nil {
		return nil, unexpected(err)
	}
	size := binary.LittleEndian.Uint32(head[len(dictionaryMagic):])
	if size > maxDictionary {
		return nil, fmt.Errorf("zstd: a dictionary of %d bytes, want at most %d", size, maxDictionary)
	}
	if _, err := raw.Discard(header); err != nil {
		return nil, unexpected(err)
	}
	dictionary, err := io.ReadAll(io.LimitReader(raw, int64(size))) // as much memory as there are bytes
	if err == nil && len(dictionary) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil || !bytes.HasPrefix(dictionary, []byte(zstdMagic)) {
		return dictionary, err
	}
	d, err := zstd.NewReader(bytes.NewReader(dictionary), zstd.WithDecoderMaxWindow(maxDictionary), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd: the dictionary: %w", err)
	}
	defer d.Close()
	dictionary, err = io.ReadAll(io.LimitReader(d, maxDictionary+1))
	switch {
	case err != nil: // the file does not end here, whatever the frame says
		return nil, fmt.Errorf("zstd: the dictionary: %v", err)
	case len(dictionary) > maxDictionary:
		return nil, fmt.Errorf("zstd: a dictionary of more than %d bytes", maxDictionary)
	}
	return dictionary, nil
}

// unexpected returns the error of a file that ends too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

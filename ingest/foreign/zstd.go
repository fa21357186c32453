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

// A .warc.zst (https://iipc.github.io/warc-specifications/specifications/warc-zstd/) has one
// Zstandard frame for each record. If the frames need a dictionary, a skippable frame at the
// beginning has it.
const (
	zstdMagic       = "\x28\xb5\x2f\xfd"
	dictionaryMagic = "\x5d\x2a\x4d\x18"

	maxDictionary = 16 << 20  // bytes, inflated
	maxWindow     = 128 << 20 // bytes of memory that a frame may ask for, as in the zstd command
)

// isZstd reports whether a file begins with a Zstandard frame, or with a dictionary.
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, []byte(zstdMagic)) || bytes.HasPrefix(head, []byte(dictionaryMagic))
}

// newZstd returns a reader of the Zstandard file that raw reads. It checks the frames' checksums,
// where they have one.
func newZstd(raw *bufio.Reader) (io.ReadCloser, error) {
	dictionary, err := readDictionary(raw)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(raw, decoding(maxWindow, dictionary)...)
	if err != nil {
		return nil, fmt.Errorf("zstd: %v", err)
	}
	return d.IOReadCloser(), nil
}

// decoding returns the options of a decoder with a window of at most most bytes, and with a
// dictionary unless that is nil. One core is enough: decoding is a small part of a conversion's
// work.
func decoding(most uint64, dictionary []byte) []zstd.DOption {
	opt := []zstd.DOption{zstd.WithDecoderMaxWindow(most), zstd.WithDecoderConcurrency(1)}
	if dictionary != nil {
		opt = append(opt, zstd.WithDecoderDicts(dictionary))
	}
	return opt
}

// readDictionary reads the dictionary at a file's beginning. The dictionary may itself be a
// Zstandard frame. It is nil if the file has no dictionary.
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
	dictionary, err := io.ReadAll(io.LimitReader(raw, int64(size))) // takes only as much memory as there are bytes
	if err == nil && len(dictionary) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil || !bytes.HasPrefix(dictionary, []byte(zstdMagic)) {
		return dictionary, err
	}
	d, err := zstd.NewReader(bytes.NewReader(dictionary), decoding(maxDictionary, nil)...)
	if err != nil {
		return nil, fmt.Errorf("zstd: the dictionary: %w", err)
	}
	defer d.Close()
	dictionary, err = io.ReadAll(io.LimitReader(d, maxDictionary+1))
	switch {
	case err != nil: // an error here is not the end of the file, whatever the frame says
		return nil, fmt.Errorf("zstd: the dictionary: %v", err)
	case len(dictionary) > maxDictionary:
		return nil, fmt.Errorf("zstd: a dictionary of more than %d bytes", maxDictionary)
	}
	return dictionary, nil
}

// zstandard is the packing of a Zstandard file. If the dictionary is damaged, frames that need it
// count as damaged too.
func zstandard(file io.Reader) *packing {
	dictionary, _ := readDictionary(bufio.NewReader(file))
	opt := append(decoding(maxWindow, dictionary), zstd.WithDecoderLowmem(true))
	return &packing{"Zstandard frame", zstdMagic, func() opener {
		var d *zstd.Decoder
		return func(in *bufio.Reader) (_ io.Reader, err error) {
			if d == nil {
				if d, err = zstd.NewReader(nil, opt...); err != nil {
					return nil, err
				}
			}
			return d, d.Reset(&frame{in: in})
		}
	}}
}

// frame reads the compressed bytes of one frame of a Zstandard file (RFC 8878), up to the end that
// its block headers give. If the file ends earlier, in ends with io.ErrUnexpectedEOF.
type frame struct {
	in     *bufio.Reader
	begun  bool
	sum    bool  // a checksum of four bytes follows the last block
	part   int64 // bytes left of the present part; see next
	ending bool  // this part is the frame's last
}

func (f *frame) Read(p []byte) (int, error) {
	for f.part == 0 {
		if f.ending {
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.part)])
	f.part -= int64(n)
	return n, err
}

// next begins the next part: the frame's header, or a block with its header. The last block's part
// includes the frame's checksum.
func (f *frame) next() error {
	const blockHeader, sum, repeated = 3, 4, 1
	if !f.begun {
		var h zstd.Header
		head, err := f.in.Peek(zstd.HeaderMaxSize)
		if herr := h.Decode(head); herr == io.ErrUnexpectedEOF {
			return err
		} else if herr != nil {
			return herr
		}
		f.begun, f.sum, f.part = true, h.HasCheckSum, int64(h.HeaderSize)
		if h.Skippable {
			f.part, f.ending = f.part+int64(h.SkippableSize), true
		}
		return nil
	}
	b, err := f.in.Peek(blockHeader)
	if err != nil {
		return err
	}
	head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	last, kind, size := head&1 == 1, head>>1&3, int64(head>>3)
	if kind == repeated {
		size = 1
	}
	f.part = blockHeader + size
	if f.ending = last; last && f.sum {
		f.part += sum
	}
	return nil
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF. It returns other errors unchanged.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

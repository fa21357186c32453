package deflate

import (
	"bytes"
	"hash/crc32"
	"testing"
)

// What is computed from the parts is what the library finds in the whole.
func FuzzParts(f *testing.F) {
	f.Add([]byte(nil), []byte(nil), uint16(0))
	f.Add([]byte("head"), []byte(nil), uint16(511))
	f.Add([]byte(nil), []byte("\r\n\r\n"), uint16(512))
	f.Add(bytes.Repeat([]byte("body "), 5000), []byte{0}, uint16(1))
	f.Fuzz(func(t *testing.T, a, b []byte, zeros uint16) {
		n := int(zeros) % 513
		whole, lenB := crc32.ChecksumIEEE(append(bytes.Clone(a), b...)), int64(len(b))
		if got := JoinCRC(CRC(a), CRC(b), lenB); got != whole {
			t.Errorf("Join is %08x, want %08x", got, whole)
		}
		if got := First(whole, CRC(b), lenB); got != CRC(a) {
			t.Errorf("First is %08x, want %08x", got, CRC(a))
		}
		if got := LastCRC(whole, CRC(a), lenB); got != CRC(b) {
			t.Errorf("Last is %08x, want %08x", got, CRC(b))
		}
		if got, want := CRCWithZeros(CRC(a), n), CRC(append(bytes.Clone(a), make([]byte, n)...)); got != want {
			t.Errorf("WithZeros is %08x, want %08x", got, want)
		}
	})
}

package deflate

import "hash/crc32"

// CRC returns the CRC-32 of b, as gzip has it.
func CRC(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// JoinCRC returns the CRC of ab, given the CRCs of a and b and the length of b.
func JoinCRC(a, b uint32, lenB int64) uint32 { return times(xPower(8*uint64(lenB)), a) ^ b }

var zeros [512]byte

// CRCWithZeros returns the CRC of a followed by n zero bytes, at most 512.
func CRCWithZeros(a uint32, n int) uint32 { return crc32.Update(a, crc32.IEEETable, zeros[:n]) }

// LastCRC returns the CRC of b, given the CRCs of ab and a and the length of b.
func LastCRC(ab, a uint32, lenB int64) uint32 { return ab ^ times(xPower(8*uint64(lenB)), a) }

// First returns the CRC of a, given the CRCs of ab and b and the length of b. It relies on x
// generating the field: the order of x is 2^32-1.
func First(ab, b uint32, lenB int64) uint32 {
	const order = 1<<32 - 1
	return times(xPower(order-8*uint64(lenB)%order), ab^b)
}

// xPower returns x^n modulo the polynomial, in the reflected representation.
func xPower(n uint64) uint32 {
	p, square := uint32(1)<<31, uint32(1)<<30
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p = times(square, p)
		}
		square = times(square, square)
	}
	return p
}

// times multiplies two polynomials modulo the CRC's polynomial.
func times(a, b uint32) (p uint32) {
	for m := uint32(1) << 31; m != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return p
}

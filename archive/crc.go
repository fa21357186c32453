package archive

import "hash/crc32"

// The CRC-32 of a string is its remainder as a polynomial over GF(2). So the CRC of a whole can be
// computed from those of its parts, without the bytes.

// crcJoin returns the CRC of ab, given those of a and b and the length of b.
func crcJoin(a, b uint32, lenB int64) uint32 { return crcTimes(xPower(8*uint64(lenB)), a) ^ b }

// crcWithZeros returns the CRC of a followed by n zero bytes.
func crcWithZeros(a uint32, n int) uint32 { return crc32.Update(a, crc32.IEEETable, zeros[:n]) }

// crcLast returns the CRC of b, given those of ab and a and the length of b.
func crcLast(ab, a uint32, lenB int64) uint32 { return ab ^ crcTimes(xPower(8*uint64(lenB)), a) }

// crcFirst returns the CRC of a, given those of ab and b and the length of b: x generates the
// field, so its order is 2^32-1.
func crcFirst(ab, b uint32, lenB int64) uint32 {
	const order = 1<<32 - 1
	return crcTimes(xPower(order-8*uint64(lenB)%order), ab^b)
}

// xPower returns x^n modulo the polynomial, in the reflected representation.
func xPower(n uint64) uint32 {
	p, square := uint32(1)<<31, uint32(1)<<30
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p = crcTimes(square, p)
		}
		square = crcTimes(square, square)
	}
	return p
}

// crcTimes multiplies two polynomials modulo the CRC's.
func crcTimes(a, b uint32) (p uint32) {
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

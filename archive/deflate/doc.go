// Package deflate makes and decodes runs of DEFLATE blocks (RFC 1951) as segments have them: no
// block is final, and the last ends on a byte boundary, so that runs can stand one after another.
//
// # Checksums
//
// JoinCRC and the functions beside it compute the CRC-32 of gzip (RFC 1952, 8) of a whole from the
// CRCs of its parts, without the bytes. The CRC of a string is its remainder as a polynomial over
// GF(2).
package deflate

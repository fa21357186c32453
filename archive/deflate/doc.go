// Package deflate makes and decodes runs of DEFLATE blocks (RFC 1951) as segments have them: no
// block is final, and the last ends on a byte boundary, so that runs can stand one after another.
//
// # Checksums
//
// JoinCRC and the functions beside it compute CRC-32s as gzip has them (RFC 1952, 8) without the
// bytes: a text's CRC from the CRCs of its two parts, or a part's CRC from the CRCs of the text and
// of the other part. The CRC of a string is its remainder as a polynomial over GF(2).
package deflate

// Package limits holds what robots and the service must agree on: how large a page may be, and how
// much a host's part of a batch may grow when it is decoded. A robot that keeps to them sends
// nothing that the service refuses for its size.
//
// # The rule of expansion
//
// A host's part of a batch is a run of cells, a cell a record. The rule holds at the end of every
// cell, and of the links cell, counted from the start of the part:
//
//	decoded <= Grace + MaxRatio * stored
//
// "stored" is the number of bytes of the cells so far, as they lie in the batch. "decoded" is the
// number of bytes that their deflated parts yield: tar headers, record heads (the WARC header with
// the HTTP header) and bodies. The index cell does not count, because the verifier compares each of
// its lines with the records before it and stops at the first that it does not expect. A part of
// ordinary pages gains room with every page. The rule stops a part that consists of little else
// than bodies of zeros.
//
// # Who applies it
//
//   - The robot's fetcher keeps at most PageBytes of a body, or what its setting page.max_bytes
//     says, which may be no more than MaxBody. It marks what it has cut with WARC-Truncated: length.
//   - [sheaf/archive.Writer] keeps the rule of expansion. It knows what each body was deflated to,
//     which the fetcher cannot. It cuts a body where the next bytes would break the rule, and marks
//     the record with WARC-Truncated: length, which the returned Cell tells. It does so also where the
//     caller gave the digest of the whole body: the record then has the digest of what was
//     kept. Links for which there is no room are left out. A record that has no room even without
//     its body is refused with archive.ErrRefused.
//   - The robot must look at the Cell that was stored, not at what it asked for: a page that
//     was cut must not be remembered as fetched in full, and is counted as truncated in its coverage.
//   - The service's verifier refuses a part that breaks the rule with the reason bomb_ratio.
package limits

// Limits that hold for every robot and for the service.
const (
	// PageBytes is how much of a page's body is kept where no setting says otherwise, in bytes.
	PageBytes = 64 << 20
	// MaxBody is the longest body that the service takes, in bytes. No setting may exceed it.
	MaxBody = 512 << 20
	// MaxRatio is how many decoded bytes each stored byte allows.
	MaxRatio = 200
	// Grace is how many bytes may be decoded beyond those that MaxRatio allows. It is
	// several times PageBytes, so that a few pages of zeros are kept whole.
	Grace = 256 << 20
)

// Room returns how many more bytes may be decoded where a part's cells have so many bytes, decoded
// and stored. It is negative where the rule of expansion is broken.
func Room(decoded, stored int64) int64 {
	return Expansion{MaxRatio, Grace}.Room(decoded, stored)
}

// Expansion is the rule of expansion with other numbers than MaxRatio and Grace.
type Expansion struct{ Ratio, Grace int64 }

// Room is the function Room with these numbers.
func (e Expansion) Room(decoded, stored int64) int64 {
	const most = 1 << 62 // below this the sum cannot overflow
	if stored > (most-e.Grace)/e.Ratio {
		return most - decoded
	}
	return e.Grace + e.Ratio*stored - decoded
}

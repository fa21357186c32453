package wire

// Limits that hold for every robot and for the service.
const (
	// PageBytes is the default limit for a page's body, in bytes. The robot cuts longer bodies.
	PageBytes = 64 << 20
	// MaxBody is the longest body that the service accepts, in bytes. No setting may exceed it.
	MaxBody = 512 << 20
	// MaxRatio is the number of decoded bytes that each stored byte allows.
	MaxRatio = 200
	// Grace is how many more bytes may be decoded than MaxRatio allows. It is several times
	// PageBytes, so that a few pages of zeros are kept whole.
	Grace = 256 << 20
)

// ExpansionRoom returns how many more bytes may be decoded if a part's cells have these numbers of
// bytes, decoded and stored. It is negative if the rule of expansion is broken.
func ExpansionRoom(decoded, stored int64) int64 {
	return Expansion{MaxRatio, Grace}.Room(decoded, stored)
}

// Expansion is the rule of expansion with other numbers than MaxRatio and Grace.
type Expansion struct{ Ratio, Grace int64 }

// Room is ExpansionRoom with the numbers of e.
func (e Expansion) Room(decoded, stored int64) int64 {
	const most = 1 << 62 // below this the sum cannot overflow
	if stored > (most-e.Grace)/e.Ratio {
		return most - decoded
	}
	return e.Grace + e.Ratio*stored - decoded
}

package frontier

// filter is a Bloom filter. All bits of a key are in one block of 32 bytes, which is in one cache
// line of the processor: a look-up needs one memory access, not seven (Putze, Sanders and Singler,
// "Cache-, hash- and space-efficient Bloom filters", 2007). The split blocks are those of Apache
// Parquet. The keys are hashes, so they are not hashed again.
type filter []block

// block has one bit in each word for each of its keys.
type block [8]uint32

const filterBits = 10 // for each key; one in sixty absent keys passes

// newFilter returns a filter for that many keys.
func newFilter(keys int64) filter {
	return make(filter, keys*filterBits/256+1)
}

// salts are the odd numbers with which Parquet's filters select bits.
var salts = block{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// of returns the block of a key. The upper half of the key selects it in ascending order, so that
// sorted keys fill the filter from beginning to end.
func (f filter) of(key uint64) *block { return &f[(key>>32)*uint64(len(f))>>32] }

func (f filter) add(key uint64) {
	b := f.of(key)
	for i, salt := range salts {
		b[i] |= 1 << (uint32(key) * salt >> 27)
	}
}

// has returns true for every key that was added, and for a few others.
func (f filter) has(key uint64) bool {
	b := f.of(key)
	for i, salt := range salts {
		if b[i]>>(uint32(key)*salt>>27)&1 == 0 {
			return false
		}
	}
	return true
}

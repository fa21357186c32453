package seen

// filter is a Bloom filter whose bits for one key lie in one block of 32 bytes, a line of the processor's cache
// at most: a key costs one access to memory, not seven (Putze, Sanders and Singler, "Cache-, hash- and
// space-efficient Bloom filters", 2007; the split blocks are those of Apache Parquet). The keys
// are hashes already, and are not hashed again.
type filter []block

// block has one bit set in each word for each of its keys.
type block [8]uint32

const filterBits = 10 // for each key: of those that are not there one in sixty passes

// newFilter makes room for so many keys.
func newFilter(keys int64) filter {
	return make(filter, keys*filterBits/256+1)
}

// salts are the odd numbers by which Parquet's filters choose bits.
var salts = block{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// of is the block of a key. Its upper half chooses, in the order of the keys, so that sorted keys
// fill the filter from one end to the other.
func (f filter) of(key uint64) *block { return &f[(key>>32)*uint64(len(f))>>32] }

func (f filter) add(key uint64) {
	b := f.of(key)
	for i, salt := range salts {
		b[i] |= 1 << (uint32(key) * salt >> 27)
	}
}

// has is false of keys that were not added, but for a few.
func (f filter) has(key uint64) bool {
	b := f.of(key)
	for i, salt := range salts {
		if b[i]>>(uint32(key)*salt>>27)&1 == 0 {
			return false
		}
	}
	return true
}

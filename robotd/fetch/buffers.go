package fetch

import "sync"

// buffers lends memory for bodies, in sizes of which most need few.
type buffers struct{ pools [len(bufferSizes)]sync.Pool }

// bufferSizes are the sizes that are lent again and again.
var bufferSizes = [...]int{4 << 10, 16 << 10, 64 << 10}

// bufferSize is the size of the buffer in which n bytes have room.
func bufferSize(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size
		}
	}
	return n
}

// get returns an empty buffer of a size that bufferSize gave.
func (b *buffers) get(size int) []byte {
	for i := range bufferSizes {
		if bufferSizes[i] != size {
			continue
		}
		if buf, ok := b.pools[i].Get().(*[]byte); ok {
			return (*buf)[:0]
		}
	}
	return make([]byte, 0, size)
}

// put takes a buffer back that nobody uses any more.
func (b *buffers) put(buf []byte) {
	for i := range bufferSizes {
		if cap(buf) == bufferSizes[i] {
			b.pools[i].Put(&buf)
		}
	}
}

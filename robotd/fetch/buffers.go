package fetch

import (
	"slices"
	"sync"
)

// buffers lends memory for bodies, in a few sizes. Returned buffers are kept for the next body, up
// to maxIdle bytes. A sync.Pool would drop them at every second garbage collection, and a robot
// with little memory has several collections a second.
type buffers struct {
	mu   sync.Mutex // guards all below
	free [len(bufferSizes)][][]byte
	idle int // bytes in free
}

// maxIdle is how many bytes of unused buffers are kept.
const maxIdle = 1 << 20

// bufferSizes are the sizes of buffers that are kept.
var bufferSizes = [...]int{4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10}

// bufferSize returns the size of the smallest buffer for n bytes.
func bufferSize(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size
		}
	}
	return n
}

// get returns an empty buffer of a size that bufferSize returned.
func (b *buffers) get(size int) []byte {
	if i := slices.Index(bufferSizes[:], size); i >= 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		if last := len(b.free[i]) - 1; last >= 0 {
			buf := b.free[i][last]
			b.free[i][last] = nil
			b.free[i] = b.free[i][:last]
			b.idle -= size
			return buf
		}
	}
	return make([]byte, 0, size)
}

// put takes back a buffer that is no longer used.
func (b *buffers) put(buf []byte) {
	i := slices.Index(bufferSizes[:], cap(buf))
	if i < 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle+cap(buf) <= maxIdle {
		b.free[i] = append(b.free[i], buf[:0])
		b.idle += cap(buf)
	}
}

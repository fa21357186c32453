package fetch

import (
	"slices"
	"sync"
)

// buffers lends memory for bodies, in sizes of which most need few. What is given back is kept
// for the next, up to maxIdle bytes: a sync.Pool forgets it at every second collection of garbage, and a robot
// that is to stay small collects several times a second.
type buffers struct {
	mu   sync.Mutex // guards all below
	free [len(bufferSizes)][][]byte
	idle int // bytes in free
}

// maxIdle is how many bytes of memory wait to be lent.
const maxIdle = 1 << 20

// bufferSizes are the sizes that are lent again and again.
var bufferSizes = [...]int{4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10}

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

// put takes a buffer back that nobody uses any more.
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

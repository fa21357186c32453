package demo

import (
	"io"
	"sync"
)

// locked is a Writer that may be used concurrently.
type locked struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

package guard

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"sheaf/internal/stream"
)

// Answer counts the bytes of an answer's body.
type Answer struct {
	http.ResponseWriter
	Status int // 0 until the answer begins

	bytes    atomic.Int64 // of the body, written so far
	header   atomic.Int64 // bytes of the header on the wire, roughly
	declared atomic.Int64 // bytes of the body according to the header; -1: it does not say
	failed   bool         // writing to the client failed
}

// WriteHeader implements http.ResponseWriter.
func (w *Answer) WriteHeader(status int) {
	if w.Status == 0 {
		w.Status = status
		w.header.Store(headerSize(w.Header()))
		declared, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
		if err != nil {
			declared = -1
		}
		w.declared.Store(declared)
	}
	w.ResponseWriter.WriteHeader(status)
}

// headerSize returns roughly how many bytes an answer's header has on the wire.
func headerSize(h http.Header) int64 {
	n := len("HTTP/1.1 206 Partial Content\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return int64(n)
}

// sent reports whether the answer's status is 200 or 206.
func (w *Answer) sent() bool {
	return w.Status == http.StatusOK || w.Status == http.StatusPartialContent
}

// Write implements http.ResponseWriter.
func (w *Answer) Write(p []byte) (int, error) {
	w.Status = cmp.Or(w.Status, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom implements io.ReaderFrom. http.ServeContent calls it for each range, with an
// io.LimitedReader over the Content.
func (w *Answer) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok {
		if c, ok := limited.R.(*Content); ok {
			c.until = c.pos + limited.N
			if to, ok := w.ResponseWriter.(stream.Writer); ok && c.file != nil {
				before := c.err
				n, err := c.sendTo(counted{to, &w.bytes}, limited.N)
				limited.N -= n
				w.failed = w.failed || err != nil && c.err == before // not reading the file failed
				return n, err
			}
		}
	}
	buf := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, src, buf[:])
}

// Unwrap is for http.ResponseController.
func (w *Answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// counted counts the bytes of a file while they are sent.
type counted struct {
	stream.Writer
	bytes *atomic.Int64
}

func (w counted) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

func (w counted) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.Writer.ReadFrom(src)
	w.bytes.Add(n)
	return n, err
}

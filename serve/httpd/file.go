package httpd

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"sheaf/internal/extent"
	"sheaf/serve"
	"sheaf/serve/account"
)

// maxRanges is how many ranges one request may ask for. A longer list is not
// heeded, as RFC 9110 allows, and the whole file is sent.
const maxRanges = 64

// file serves one file of the tree, under the name download where one is given.
func (s *server) file(w http.ResponseWriter, r *http.Request, a *account.Account, name, download string) error {
	if r.Method == http.MethodHead {
		node, err := s.Library.Stat(r.Context(), a, name)
		if err == nil && node.Dir {
			err = serve.ErrIsDirectory
		}
		if err != nil {
			return err
		}
		boundRanges(r)
		describe(w.Header(), node, download)
		http.ServeContent(w, r, "", node.Modified, &content{size: node.Size})
		return nil
	}
	f, err := s.Library.Open(r.Context(), a, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.sendFile(w, r, a, f, name, download)
}

// sendFile sends an open file, which is recorded under its name.
func (s *server) sendFile(w http.ResponseWriter, r *http.Request, a *account.Account, f *serve.File, name, download string) error {
	boundRanges(r)
	describe(w.Header(), f.Node, download)
	if r.Method == http.MethodHead {
		http.ServeContent(w, r, "", f.Modified, &content{size: f.Size})
		return nil
	}
	c := &content{ctx: r.Context(), file: f, size: f.Size}
	defer c.Close()
	out := &counter{ResponseWriter: w}
	d := s.beginDownload(r, a, name, out)
	defer d.end(r, c) // also when the handler is aborted
	http.ServeContent(out, r, "", f.Modified, c)
	return nil
}

// boundRanges drops a list of ranges that is too long.
func boundRanges(r *http.Request) {
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
}

// describe sets the headers that tell what a file is.
func describe(h http.Header, n serve.Node, download string) {
	h.Set("ETag", n.ETag)
	h.Set("Content-Type", n.Type)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	if sum, err := hex.DecodeString(n.SHA256); err == nil && len(sum) > 0 {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	if download != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": download}))
	}
}

// content is an open file as http.ServeContent wants it: a range is opened where
// reading begins, and not before.
type content struct {
	ctx  context.Context
	file *serve.File
	size int64
	pos  int64
	body io.ReadCloser // reads from pos on; nil until the first Read after a Seek
	err  error         // why reading failed
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d, before the beginning", offset)
	}
	if offset != c.pos && c.body != nil {
		c.body.Close()
		c.body = nil
	}
	c.pos = offset
	return offset, nil
}

func (c *content) Read(p []byte) (int, error) {
	if c.pos >= c.size {
		return 0, io.EOF
	}
	if c.body == nil {
		if c.body, c.err = c.file.OpenRange(c.ctx, c.pos, c.size-c.pos); c.err != nil {
			c.body = nil
			return 0, c.err
		}
	}
	n, err := c.body.Read(p)
	c.pos += int64(n)
	if errors.Is(err, io.EOF) && c.pos < c.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// sendTo sends the next n bytes, at the account's pace: the kernel does, as far as
// they lie in files of this machine.
func (c *content) sendTo(w extent.Writer, n int64) (int64, error) {
	from, err := c.file.Extents(c.pos, n)
	switch {
	case err != nil:
		c.err = err
		return 0, err
	case from == nil && n == 0: // a file may be empty
		return 0, nil
	case from == nil:
		return io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(c, n), make([]byte, min(n, copyBuffer)))
	}
	defer from.Close()
	sent, err := extent.Send(c.ctx, w, from, c.file.Pace)
	c.pos += sent
	var failed *extent.SourceError
	if errors.As(err, &failed) {
		c.err = failed.Err
	}
	return sent, err
}

// copyBuffer is how many bytes at a time pass through the process, where they must.
const copyBuffer = 128 << 10

func (c *content) Close() error {
	if c.body == nil {
		return nil
	}
	return c.body.Close()
}

// counter counts the bytes of an answer's body.
type counter struct {
	http.ResponseWriter
	status int
	bytes  atomic.Int64
	failed bool // what was to be written was not

	header   atomic.Int64 // bytes of the answer's header, about
	declared atomic.Int64 // bytes of the body by the header; -1: it does not say
}

func (w *counter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.header.Store(headerSize(w.Header()))
		declared, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
		if err != nil {
			declared = -1
		}
		w.declared.Store(declared)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *counter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom is how http.ServeContent copies a range: from a LimitedReader over
// the content, which is told to send itself.
func (w *counter) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		c, isContent := limited.R.(*content)
		to, canSend := w.ResponseWriter.(extent.Writer)
		if isContent && canSend {
			before := c.err
			n, err := c.sendTo(sending{to, &w.bytes}, limited.N)
			limited.N -= n
			w.failed = w.failed || err != nil && c.err == before // it was not the file's reader that failed
			return n, err
		}
		if b, isBody := limited.R.(*bodyContent); isBody {
			b.until = b.pos + limited.N
		}
	}
	return io.Copy(struct{ io.Writer }{w}, src)
}

// sending counts the bytes of a file while they are sent.
type sending struct {
	extent.Writer
	bytes *atomic.Int64
}

func (w sending) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

func (w sending) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.Writer.ReadFrom(src)
	w.bytes.Add(n)
	return n, err
}

// Unwrap serves http.ResponseController.
func (w *counter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

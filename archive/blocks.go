package archive

import (
	"io"

	"sheaf/archive/deflate"
	"sheaf/internal/media"
)

// Deflated is a body, deflated as segments store it.
type Deflated struct {
	Blocks io.Reader
	Size   int64 // bytes of Blocks
	Body   int64 // bytes that they decode to
}

// Deflater deflates bodies as a Writer does, for a Writer on another machine. It must not be used
// concurrently.
type Deflater struct {
	compress *deflate.Compressor
	copying  []byte
}

// NewDeflater returns a Deflater. level is the compression level, from 1 to 9.
func NewDeflater(level int) (*Deflater, error) {
	c, err := deflate.NewCompressor(level)
	return &Deflater{c, make([]byte, 32<<10)}, err
}

// Deflate writes the blocks of a page's body. http is the page's status line and header. Its media
// type says whether the body is compressed already.
func (d *Deflater) Deflate(dst io.Writer, http []byte, body io.Reader) error {
	_, mimeType, _ := parseHTTP(http) // a Writer would refuse the record
	run := d.compress.Begin(dst, media.IsCompressed(mimeType))
	if _, err := io.CopyBuffer(struct{ io.Writer }{run}, struct{ io.Reader }{body}, d.copying); err != nil {
		return err
	}
	return run.Close()
}

// begin begins the run of a page's body. If d holds the deflated body and all of it fits, begin
// stores d's blocks, and returns a run that drops its input.
func (w *Writer) begin(d *Deflated, stored bool) (deflate.Run, error) {
	if d == nil || d.Body > min(w.opt.MaxBody, w.room(d.Size)) {
		return w.compress.Begin(&w.body, stored), nil
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{&w.body}, struct{ io.Reader }{d.Blocks}, w.copying)
	return wholeRun{}, err
}

// wholeRun is a run whose blocks are stored already. It drops its input.
type wholeRun struct{}

func (wholeRun) Write(p []byte) (int, error) { return len(p), nil }
func (wholeRun) Flush() error                { return nil }
func (wholeRun) Close() error                { return nil }

package archive

import (
	"errors"
	"io"
)

// next reads one cell, or the end member. It returns io.EOF if the input ends between cells.
func (w *walker) next() (item, error) {
	if _, err := w.in.Peek(1); err == io.EOF {
		return item{}, io.EOF
	}
	w.taps = nil
	t, err := w.member("a cell's first member")
	if err != nil {
		return item{}, err
	}
	if it, ok, err := w.end(t); ok || err != nil {
		return it, err
	}
	if t.fields != 0 {
		return item{}, w.fail(corrupt("a tar header's member has extra fields besides WL"), t.start)
	}
	c := Cell{Place: Place{Offset: t.start, TLen: t.length}}
	headers, err := w.tarHeaders(t, &c)
	if err != nil {
		return item{}, err
	}
	b, err := w.member("a cell's second member")
	if err != nil {
		return item{}, err
	}
	c.BLen = b.length
	if b.ws == nil && b.wp == nil {
		return w.tarOnly(b, &c, headers)
	}
	if b.wp == nil || b.ws == nil || b.wi != nil {
		return item{}, w.fail(corrupt("a body's member must have WL, WS and WP"), b.start)
	}
	if err := w.record(b, &c, headers); err != nil {
		return item{}, w.recordFault(err, &c, headers)
	}
	w.cell++
	if c.Time.After(w.last) {
		w.last = c.Time
	}
	return item{kind: cellItem, cell: c}, nil
}

// recordFault returns the error of a cell whose record is not right. If the cell's tar headers are
// not those of one file, that is the error.
func (w *walker) recordFault(err error, c *Cell, headers []byte) error {
	if len(headers) > 0 {
		if _, ferr := parseTarHeaders(headers); ferr != nil {
			err = w.fail(ferr, c.Offset)
		}
	}
	if ferr, ok := errors.AsType[*FormatError](err); ok && ferr.Entry == "" {
		ferr.Entry = c.URL
	}
	return err
}

package archive

import (
	"bytes"
	"io"
	"strings"
	"time"

	"sheaf/archive/naming"
)

// tarOnly reads B of a links, index or manifest cell, after B's head.
func (w *walker) tarOnly(b *member, c *Cell, headers []byte) (item, error) {
	if b.fields != 0 {
		return item{}, w.fail(corrupt("a tar-only cell's body has extra fields besides WL"), b.start)
	}
	e, ferr := parseTarHeaders(headers)
	if ferr != nil {
		return item{}, w.fail(ferr, c.Offset)
	}
	c.Name, c.BodyLen = e.name, e.size
	it, out, modified, ferr := w.metaEntry(e)
	if ferr != nil {
		return item{}, w.fail(ferr, c.Offset)
	}
	if want := (&tarEntry{name: e.name, size: e.size, modified: modified}).headers(); !bytes.Equal(headers, want) {
		return item{}, w.fail(corrupt("the tar header of %q differs from the one that FORMAT.md gives", e.name), c.Offset)
	}
	if err := w.tarOnlyBody(b, c, it.kind, out); err != nil {
		return item{}, err
	}
	switch out := out.(type) {
	case *limitedBuffer:
		it.manifest = out.Bytes()
	case *lineWriter:
		if len(out.part) > 0 {
			return item{}, w.fail(corrupt("%s: the last line does not end with a newline", c.Name), b.start)
		}
	}
	it.cell = *c
	return it, nil
}

// metaEntry recognises an entry without a record by its name. It returns the item that the entry
// begins, a writer for its body, and the time that its tar header must have.
func (w *walker) metaEntry(e *tarEntry) (it item, out io.Writer, modified time.Time, _ *FormatError) {
	if e.name == manifestName {
		return item{kind: manifestItem}, &limitedBuffer{max: maxManifest}, time.Unix(0, 0), nil
	}
	it.kind, out = indexItem, &lineWriter{what: "index line", emit: w.onLine}
	host, segment, ok := naming.ParseMetaName(e.name, ".cdxj")
	if !ok {
		host, segment, ok = naming.ParseMetaName(e.name, ".links")
		it.kind = linksItem
	}
	if w.host == "" && ok {
		w.host = host
	}
	if !ok || host != w.host {
		ferr := corrupt("entry %q without a record is neither the links or index cell of %s nor a batch's manifest", e.name, w.host)
		if !strings.HasPrefix(e.name, naming.HostDir(w.host)+"/") {
			ferr.Code = codePathEscape
		}
		return it, nil, modified, ferr
	}
	it.segment, w.segmentID = segment, segment
	if it.kind == linksItem {
		out = &lineWriter{what: "line", emit: (&linkChecker{host: w.host}).line}
	}
	if w.cell == 0 || w.mixed { // only the index is read, or cells that it does not list are read, too
		return it, out, e.modified, nil
	}
	return it, out, w.last, nil
}

// tarOnlyBody reads the body of a cell without a record into out, and the end of its member.
func (w *walker) tarOnlyBody(b *member, c *Cell, kind itemKind, out io.Writer) error {
	taps := w.views.tarTap()
	if kind == linksItem {
		taps = append(taps, w.views.linksTap()...)
	}
	within := b
	if kind == indexItem && w.cell > 0 && w.onLine != nil && !w.mixed {
		within = &member{} // each line is compared with the cells, so the rule of expansion is not needed
	}
	if err := w.file(b, within, c, &fileSum{to: out}, c.Name, taps...); err != nil {
		return err
	}
	if kind == linksItem {
		w.views.linksFile(c)
	}
	return nil
}

// lineWriter splits the text that is written to it into lines.
type lineWriter struct {
	what string
	emit func(line string) error // may be nil
	part []byte
	n    int
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.part = append(l.part, rest...)
			if len(l.part) > maxLine {
				return 0, corrupt("%s %d is longer than %d bytes", l.what, l.n+1, maxLine)
			}
			break
		}
		line := append(l.part, rest[:i+1]...)
		l.part, rest = l.part[:0], rest[i+1:]
		l.n++
		if l.emit == nil {
			continue
		}
		if err := l.emit(string(line)); err != nil {
			return 0, corrupt("%s %d: %v", l.what, l.n, err)
		}
	}
	return len(p), nil
}

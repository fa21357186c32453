package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"sheaf/serve/replay"
)

// IndexOutput is the format of an answer.
type IndexOutput int8

const (
	CDXJ   IndexOutput = iota // pywb's: key, timestamp, JSON object; in the order of an index file
	JSON                      // the Internet Archive's: an array of arrays; the first has the names
	NDJSON                    // one JSON object in each line
	Text                      // the Internet Archive's: the fields separated by spaces; "-" for a missing one
)

var outputs = map[string]IndexOutput{"cdxj": CDXJ, "json": JSON, "ndjson": NDJSON, "text": Text}

// ContentType returns the media type of the answer.
func (o IndexOutput) ContentType() string {
	switch o {
	case JSON:
		return "application/json"
	case NDJSON:
		return "application/x-ndjson"
	}
	return "text/plain; charset=utf-8"
}

// Fields of an answer if the query names none.
var (
	standardFields = []string{"url", "mime", "status", "digest", "length", fieldOffset, fieldFilename, fieldTruncated}
	archiveFields  = []string{fieldKey, fieldTimestamp, "original", "mimetype", "statuscode", "digest", "length"}
)

// IndexWriter formats an answer, record by record.
type IndexWriter struct {
	out    *bytes.Buffer
	query  *Query
	fields []string
	of     []string // the fields by pywb's names
	texts  []string // of the record that is being written
	lines  int
}

// NewIndexWriter returns a writer that writes records to out, in the format that q asks for.
func NewIndexWriter(out *bytes.Buffer, q *Query) *IndexWriter {
	w := &IndexWriter{out: out, query: q, fields: q.fields}
	if w.fields == nil {
		switch q.Output {
		case CDXJ:
			w.fields = standardFields
		case NDJSON:
			w.fields = append([]string{fieldKey, fieldTimestamp}, standardFields...)
		default:
			w.fields = archiveFields
		}
	}
	w.fields = append(slices.Clone(w.fields), q.countFields()...)
	if q.Output == CDXJ { // they precede the object
		w.fields = slices.DeleteFunc(w.fields, func(f string) bool { return f == fieldKey || f == fieldTimestamp })
	}
	for _, name := range w.fields {
		w.of = append(w.of, cmp.Or(field(name), name))
	}
	w.texts = make([]string, len(w.of))
	return w
}

// Add writes a record, or with an error nothing.
func (w *IndexWriter) Add(ctx context.Context, c Record) error {
	texts := w.texts
	for i, name := range w.of {
		var err error
		if texts[i], err = value(ctx, c, name); err != nil {
			return err
		}
	}
	w.lines++
	switch w.query.Output {
	case CDXJ:
		w.out.WriteString(c.URLKey + " " + c.Time.UTC().Format(replay.Layout) + " ")
		w.object(texts)
	case NDJSON:
		w.object(texts)
	case JSON:
		if w.lines == 1 {
			w.out.WriteString("[")
			w.json(w.fields)
		}
		w.out.WriteString(",\n")
		w.json(texts)
		return nil
	case Text:
		for i, text := range texts {
			if text == "" {
				texts[i] = "-"
			}
		}
		w.out.WriteString(strings.Join(texts, " "))
	}
	w.out.WriteByte('\n')
	return nil
}

// object writes the record's fields as a JSON object, in order. It omits missing fields, unless the
// query names its fields.
func (w *IndexWriter) object(texts []string) {
	w.out.WriteByte('{')
	first := true
	for i, name := range w.fields {
		if texts[i] == "" && w.query.fields == nil {
			continue
		}
		if !first {
			w.out.WriteString(", ")
		}
		first = false
		w.text(name)
		w.out.WriteString(": ")
		w.text(texts[i])
	}
	w.out.WriteByte('}')
}

// text writes a JSON string. Most need no escapes.
func (w *IndexWriter) text(s string) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= utf8.RuneSelf }) {
		w.json(s)
		return
	}
	w.out.WriteByte('"')
	w.out.WriteString(s)
	w.out.WriteByte('"')
}

func (w *IndexWriter) json(v any) {
	enc := json.NewEncoder(w.out)
	enc.SetEscapeHTML(false)
	enc.Encode(v) // cannot fail: strings, to memory
	w.out.Truncate(w.out.Len() - 1)
}

// Close completes the answer. next is where to continue; nil means that this was all.
func (w *IndexWriter) Close(next *Cursor) {
	key := w.query.showKey && next != nil
	switch w.query.Output {
	case JSON:
		if w.lines == 0 {
			w.out.WriteString("[")
		}
		if key {
			if w.lines > 0 {
				w.out.WriteString(",\n")
			}
			w.out.WriteString("[],\n")
			w.json([]string{next.String()})
		}
		w.out.WriteString("]\n")
	case Text, CDXJ:
		if key {
			w.out.WriteString("\n" + next.String() + "\n")
		}
	}
}

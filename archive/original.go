package archive

import (
	"fmt"
	"slices"
	"strings"
)

// Field is a line of a WARC header.
type Field struct{ Name, Value string }

// MaxOriginal limits the sum of the names and values in Record.Original, in bytes.
const MaxOriginal = 4 << 10

// originalPrefix is put before the name of an original field that Sheaf writes with another value.
const originalPrefix = "X-Original-"

// recordIDField is the one original field that replaces Sheaf's own field of that name.
const recordIDField = "WARC-Record-ID"

// ownFields are the fields that Sheaf writes itself.
var ownFields = []string{
	"WARC-Type", recordIDField, "WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Payload-Digest", "WARC-Block-Digest", "WARC-Truncated",
	preferencesField, "WARC-Profile", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date", "Content-Type", "Content-Length",
}

func isOwnField(name string) bool {
	return slices.ContainsFunc(ownFields, func(own string) bool { return strings.EqualFold(own, name) })
}

// CheckOriginal returns an error if a record cannot keep the fields as its Original.
func CheckOriginal(fields []Field) error {
	size := 0
	for _, f := range fields {
		if f.Name == "" || strings.ContainsFunc(f.Name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c) }) {
			return fmt.Errorf("%.80q is no name of a header field", f.Name)
		}
		if f.Value == "" || strings.TrimSpace(f.Value) != f.Value || strings.ContainsFunc(f.Value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return fmt.Errorf("field %s: %.80q is empty, begins or ends with white space, or is more than one line", f.Name, f.Value)
		}
		if strings.EqualFold(f.Name, recordIDField) && !isRecordID(f.Value) {
			return fmt.Errorf("%s is %.80q, want a URI in angle brackets", f.Name, f.Value)
		}
		size += len(f.Name) + len(f.Value)
	}
	if size > MaxOriginal {
		return fmt.Errorf("original header fields of %d bytes are over %d", size, MaxOriginal)
	}
	return nil
}

// isRecordID reports whether a text has the form of a WARC-Record-ID: a URI in angle brackets.
func isRecordID(s string) bool {
	inner, ok := strings.CutPrefix(s, "<")
	inner, end := strings.CutSuffix(inner, ">")
	return ok && end && inner != "" && len(s) <= 256 && !strings.ContainsFunc(inner, func(c rune) bool { return c <= ' ' || c > '~' || c == '<' || c == '>' })
}

// keep sets the header's ID and its further fields from the original fields. It leaves out fields
// that the header already has with the same value. Call it when all else of the header is set.
func (h *warcHead) keep(original []Field) {
	if len(original) == 0 {
		return
	}
	own := string(h.bytes())
	for _, f := range original {
		switch {
		case strings.EqualFold(f.Name, recordIDField) && h.id == "":
			h.id = f.Value
		case strings.Contains(own, "\r\n"+f.Name+": "+f.Value+"\r\n"):
		case isOwnField(f.Name):
			h.fields = append(h.fields, Field{originalPrefix + f.Name, f.Value})
		default:
			h.fields = append(h.fields, f)
		}
	}
	if len(h.fields) == 0 && h.id != "" && h.id != h.ownID() { // see parseWARC
		h.fields = append(h.fields, Field{originalPrefix + recordIDField, h.id})
	}
}

// checkFields checks the fields that an imported record kept from its original header.
func (h *warcHead) checkFields() error {
	size := 0
	for _, f := range h.fields {
		if isOwnField(f.Name) {
			return fmt.Errorf("field %s is there twice", f.Name)
		}
		size += len(f.Name) + len(f.Value)
		if err := CheckOriginal([]Field{f}); err != nil {
			return err
		}
	}
	if most := MaxOriginal + len(originalPrefix)*len(h.fields); size > most {
		return fmt.Errorf("original header fields of %d bytes are over %d", size, most)
	}
	if h.id != "" && !isRecordID(h.id) {
		return fmt.Errorf("%s is %.80q, want a URI in angle brackets", recordIDField, h.id)
	}
	return nil
}

package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/media"
	"sheaf/serve/replay"
	"sheaf/serve/texts"
)

// Fields of a record, with pywb's names.
const (
	fieldKey       = "urlkey"
	fieldTimestamp = "timestamp"
	fieldOffset    = "offset"
	fieldFilename  = "filename"
	fieldTruncated = "truncated"
	fieldLength    = "length"
	fieldModified  = "modified"
	fieldResolved  = "resolved"
	fieldAddress   = "address"
	fieldCharset   = "charset"
	fieldLanguage  = "language"

	// Fields of the record that a revisit refers to.
	originalLength = "orig.length"
	originalOffset = "orig.offset"
	originalFile   = "orig.filename"

	// Counted fields, which only their own parameters add.
	fieldDupes    = "dupecount"
	fieldSkips    = "skipcount"
	fieldSkipsEnd = "endtimestamp"
)

// fieldNames are the fields that can be requested, in the order in which messages list them.
var fieldNames = []string{
	fieldKey, fieldTimestamp, "url", "mime", "status", "digest", fieldLength, fieldOffset, fieldFilename, fieldTruncated,
	"host", "edition", "published", "time", fieldModified, "kind", "refers", "refersto", fieldResolved, fieldAddress, "robot", "batch", "collection", "preferences", fieldCharset, fieldLanguage, originalLength, originalOffset, originalFile,
}

// warcField begins the names of fields of the record's WARC header, such as
// warc.WARC-Concurrent-To. The record is read for them.
const warcField = "warc."

var warcName = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

// aliases are fields by the Internet Archive's names.
var aliases = map[string]string{"original": "url", "mimetype": "mime", "statuscode": "status"}

// field returns the field with a name, or "" if no field has it.
func field(name string) string {
	if of, ok := aliases[name]; ok {
		return of
	}
	if of, ok := strings.CutPrefix(name, warcField); slices.Contains(fieldNames, name) || ok && warcName.MatchString(of) {
		return name
	}
	return ""
}

// value returns the text of a field, or "" if the record does not have it.
func value(ctx context.Context, c Record, name string) (string, error) {
	switch name {
	case originalLength, originalOffset, originalFile:
		return original(ctx, c.Capture, name)
	case fieldDupes:
		return strconv.Itoa(c.Dupes), nil
	case fieldSkips:
		return strconv.FormatInt(c.Skipped, 10), nil
	case fieldSkipsEnd:
		return moment(c.SkipsEnd, replay.Layout), nil
	case fieldKey:
		return c.URLKey, nil
	case fieldTimestamp:
		return c.Time.UTC().Format(replay.Layout), nil
	case "url":
		return c.URL, nil
	case "mime":
		return c.MIME, nil
	case "status":
		return strconv.Itoa(c.Status), nil
	case "digest":
		return c.Digest, nil
	case fieldLength:
		return strconv.FormatInt(c.WARCLength(), 10), nil
	case fieldOffset, fieldFilename:
		file, offset, err := c.Place(ctx)
		if name == fieldOffset {
			file = strconv.FormatInt(offset, 10)
		}
		return file, err
	case fieldTruncated:
		return c.Truncated, nil
	case "time":
		return c.Time.UTC().Format(time.RFC3339Nano), nil
	case fieldModified:
		at, err := c.Modified(ctx)
		return moment(at, time.RFC3339), err
	case "kind":
		return c.Kind.String(), nil
	case "refers":
		return moment(c.RefersDate, time.RFC3339Nano), nil
	case "refersto":
		return c.RefersTo, nil
	case fieldResolved:
		return resolved(ctx, c.Capture)
	case fieldAddress:
		return replay.RecordPath(c.Time, c.ID(), replay.Plain, c.URL), nil
	case "preferences":
		return c.Preferences, nil
	case fieldCharset, fieldLanguage:
		return written(ctx, c.Capture, name)
	}
	if of, ok := strings.CutPrefix(name, warcField); ok {
		return c.WARCField(ctx, of)
	}
	return ofSegment(c.Segment, name), nil
}

// ofSegment returns the text of a field that all records of a segment share, or "" for any other
// field.
func ofSegment(s *catalog.SegmentEntry, name string) string {
	switch name {
	case "host":
		return s.Host
	case "edition":
		return s.Edition
	case "published":
		return s.Published.UTC().Format(time.RFC3339)
	case "robot":
		return s.Robot
	case "batch":
		return s.Batch
	case "collection":
		return s.Collection
	}
	return ""
}

// moment formats a time in UTC, or returns "" if it is zero.
func moment(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// parseFields parses a comma-separated list of fields, and fails at an unknown one.
func parseFields(text string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); field(name) == "" {
			return nil, unknownField(name)
		}
		names = append(names, name)
	}
	return names, nil
}

// Filter selects records by the text of a field: [!][=|~]field:expr. With = the text must be expr.
// With ~ the regular expression expr (RE2) must match the whole text. With neither, the text must
// contain expr, as in pywb, or match it as a whole, as at the Internet Archive. With ! the other
// records are selected.
type Filter struct {
	field string
	not   bool
	text  string         // to be equal to, or contained; "" if only the expression counts
	exact bool           // equal instead of contained
	match *regexp.Regexp // nil if only the text counts
}

// maxExpr is the limit for an expression, in bytes, and maxFilters for the number of filters.
const maxExpr, maxFilters = 1024, 32

func parseFilter(text string) (Filter, error) {
	var f Filter
	rest := text
	if r, ok := strings.CutPrefix(rest, "!"); ok {
		f.not, rest = true, r
	}
	mode := byte(0)
	if rest != "" && (rest[0] == '=' || rest[0] == '~') {
		mode, rest = rest[0], rest[1:]
	}
	name, expr, ok := strings.Cut(rest, ":")
	if !ok {
		return f, fmt.Errorf("want [!][=|~]field:expression")
	}
	if f.field = field(name); f.field == "" {
		return f, unknownField(name)
	}
	if len(expr) > maxExpr {
		return f, fmt.Errorf("expression of %d bytes is longer than %d", len(expr), maxExpr)
	}
	if mode == '=' {
		f.text, f.exact = expr, true
		return f, nil
	}
	_, err := regexp.Compile(expr) // without brackets: its error shows what was given, and "a)|(b" fails
	if err == nil {
		f.match, err = regexp.Compile(`\A(?:` + expr + `)\z`)
	}
	switch {
	case mode == '~' && err != nil:
		return f, fmt.Errorf("regular expression: %w", err)
	case mode != '~':
		f.text = expr // not a regular expression, but it may be contained
	}
	if mode != '~' && expr == "" {
		f.exact = true
	}
	return f, nil
}

func unknownField(name string) error {
	return fmt.Errorf("no field %.40q; the fields are %s", name, strings.Join(fieldNames, ", ")+", and "+warcField+"NAME of the record's WARC header")
}

// pass reports whether the filter selects a record.
func (f *Filter) pass(ctx context.Context, c *Capture) (bool, error) {
	text, err := value(ctx, Record{Capture: c}, f.field)
	if err != nil {
		return false, err
	}
	return f.holds(text) != f.not, nil
}

func (f *Filter) holds(text string) bool {
	switch {
	case f.exact:
		return text == f.text
	case f.text != "" && strings.Contains(text, f.text):
		return true
	}
	return f.match != nil && f.match.MatchString(text)
}

// maxCollapses is how many collapses a query may have.
const maxCollapses = 8

// collapse keeps only the first of successive records with the same field, or the same beginning of
// it.
type collapse struct {
	field string
	first int // number of characters to compare; 0: all
}

func parseCollapse(text string) (collapse, error) {
	name, digits, cut := strings.Cut(text, ":")
	c := collapse{field: field(name)}
	if c.field == "" {
		return c, unknownField(name)
	}
	if cut {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > 10000 {
			return c, fmt.Errorf("%.20q characters: want a number from 1 to 10000", digits)
		}
		c.first = n
	}
	return c, nil
}

// pass reports whether a record's compared text differs from that of the record before. last is the
// mark of the record before, and mark this record's own: a hash of the text.
func (c collapse) pass(ctx context.Context, of *Capture, last string) (mark string, ok bool, err error) {
	text, err := value(ctx, Record{Capture: of}, c.field)
	if err != nil {
		return "", false, err
	}
	if c.first > 0 {
		chars := []rune(text)
		text = string(chars[:min(c.first, len(chars))])
	}
	sum := sha256.Sum256([]byte(text))
	mark = hex.EncodeToString(sum[:8])
	return mark, mark != last, nil
}

// Written returns the charset of a page or another answer, as replay shows it, and a page's
// language, as BCP 47 has it. They are empty if the record has no text of its own, or is damaged.
// It reads the beginning of the record.
func (c *Capture) Written(ctx context.Context) (charset, language string, err error) {
	if !c.Kind.HasFile() && c.Kind != archive.Response || !media.IsText(media.Sniff(c.MIME, nil)) && c.MIME != archive.UnknownMIME {
		return "", "", nil
	}
	answer, head, err := c.Beginning(ctx, texts.HeadBytes)
	if _, ok := errors.AsType[*DamageError](err); ok {
		return "", "", nil
	}
	if err != nil || len(head) == 0 || !media.IsText(media.Sniff(answer.ContentType(), head)) {
		return "", "", err
	}
	if texts.IsPage(answer.ContentType(), head) {
		language = texts.Language(head, answer.ContentType())
	}
	return texts.CharsetName(media.DetectCharset(head, answer.ContentType()).Name), language, nil
}

// written returns one of Written's results; for a revisit, its page's.
func written(ctx context.Context, c *Capture, name string) (string, error) {
	page, err := c.Resolve(ctx)
	if page == nil {
		page = c
	}
	if err != nil {
		return "", err
	}
	charset, language, err := page.Written(ctx)
	if name == fieldLanguage {
		return language, err
	}
	return charset, err
}

package records

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/serve/replay"
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

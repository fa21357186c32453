// Package display formats and parses sizes, parses times, and makes foreign names harmless.
//
// # Sizes
//
// ParseBytes and FormatBytes parse and format numbers of bytes, such as 64KiB and 1.5GiB. Units are
// powers of 1024.
//
// # Times
//
// ParseDayOrTime parses the beginning or end of a period: a day, or a time. ParsePeriod parses the
// beginning and the end.
//
// # Foreign names
//
// Harmless keeps foreign names from controlling a terminal. URLs, names of files and messages that
// quote them come from the web: an escape sequence could clear the screen, or change the text of a
// line.
package display

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var units = [...]string{"", "KiB", "MiB", "GiB", "TiB"}

// most is the largest number of bytes that ParseBytes accepts. Four times as many still fit into an
// int64.
const most = math.MaxInt64 / 4

// ParseBytes parses a number of bytes that is not negative, such as 4096, 512KiB, 1.5MiB or "50
// GiB". A fraction of a byte is cut off.
func ParseBytes(text string) (int64, error) {
	number, unit := text, int64(1)
	for i, suffix := range units[1:] {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSuffix(before, " "), 1<<(10*(i+1))
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= most/unit {
		return n * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > most {
		return 0, fmt.Errorf("%q is not a number of bytes such as 4096, 512KiB or 1.5MiB", text)
	}
	return int64(f * float64(unit)), nil
}

// FormatBytes formats a number of bytes so that ParseBytes returns exactly this number.
func FormatBytes(n int64) string {
	i := 0
	for n > 0 && n%1024 == 0 && i+1 < len(units) {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

var errDayOrTime = errors.New("neither a day like 2026-11-21 nor a time like 2026-11-21T09:00:00Z")

// ParseDayOrTime parses a time in RFC 3339, or a day, which stands for its beginning in zone. The
// returned time is in zone.
func ParseDayOrTime(text string, zone *time.Location) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		return day, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errDayOrTime
	}
	return at.In(zone), nil
}

// ParsePeriod is ParseDayOrTime for the parameters since and until of a query. A parameter that is
// empty changes nothing.
func ParsePeriod(since, until string, zone *time.Location, from, to *time.Time) (err error) {
	for _, at := range []struct {
		name, text string
		to         *time.Time
	}{{"since", since, from}, {"until", until, to}} {
		if at.text == "" {
			continue
		}
		if *at.to, err = ParseDayOrTime(at.text, zone); err != nil {
			return fmt.Errorf("%s %.200q is %w", at.name, at.text, err)
		}
	}
	return nil
}

// Harmless returns s with every control character, and every byte that is not UTF-8, written as in
// a string of Go, such as \x1b or \n. Characters that change the direction of writing count as
// control characters.
func Harmless(s string) string {
	if strings.IndexFunc(s, harmful) < 0 {
		return s
	}
	return string(appendHarmless(nil, []byte(s), false))
}

// HarmlessLines is Harmless for several lines: line feeds and tabs stay.
func HarmlessLines(s string) string { return string(appendHarmless(nil, []byte(s), true)) }

func harmful(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// appendHarmless appends the harmless form of s. If lines is true, line feeds and tabs stay.
func appendHarmless(b, s []byte, lines bool) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case lines && (r == '\n' || r == '\t'), !harmful(r), r == utf8.RuneError && n > 1:
			b = append(b, s[:n]...)
		case r == utf8.RuneError:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[s[0]>>4], "0123456789abcdef"[s[0]&15])
		default:
			q := strconv.AppendQuoteRuneToASCII(nil, r)
			b = append(b, q[1:len(q)-1]...)
		}
		s = s[n:]
	}
	return b
}

// NewHarmlessWriter returns a Writer that writes the harmless form of its input to w, as
// HarmlessLines does for a text.
func NewHarmlessWriter(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	part []byte // of a character that the next Write may complete
}

func (w *writer) Write(p []byte) (int, error) {
	text := append(bytes.Clone(w.part), p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	w.part = bytes.Clone(text[whole:])
	if _, err := w.w.Write(appendHarmless(nil, text[:whole], true)); err != nil {
		return 0, err
	}
	return len(p), nil
}

package wire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// MaxLogLine is the limit for a line of a collection log, in bytes without its LF.
const MaxLogLine = 256 << 10

// LogLine is one line of a collection log (P3): one HTTP exchange of a robot.
//
//	"URL"request, answer, ms, "header"
//
// is the paper's grammar; the rest is defined here. Sizes are bytes as transferred, the time is
// whole milliseconds. Between the quotation marks are the bytes themselves, except for \" \\ \r \n
// \t, and \xHH for every other byte below 0x20 and 0x7f. So a header with several lines takes one
// line of the log.
type LogLine struct {
	URL    string
	Sent   int64         // bytes of the request
	Got    int64         // bytes of the answer, header and body
	Took   time.Duration // from the first byte sent to the last byte received
	Header string        // status line and header fields of the answer, separated by CRLF; empty if there was no answer

	// At is the time in the last TimeComment before the line; zero if there is none. It is not part
	// of the line, and Append does not write it.
	At time.Time
}

// TimeComment returns a comment line, with its LF, that gives the time of the lines after it.
// Robots write one at the start of each hour.
func TimeComment(t time.Time) string { return timeMark + t.UTC().Format(time.RFC3339) + "\n" }

const timeMark = "# at "

// Append appends the line with its LF. It truncates Took to milliseconds.
func (l LogLine) Append(dst []byte) []byte {
	dst = appendQuoted(dst, l.URL)
	dst = strconv.AppendInt(dst, l.Sent, 10)
	dst = append(dst, ", "...)
	dst = strconv.AppendInt(dst, l.Got, 10)
	dst = append(dst, ", "...)
	dst = strconv.AppendInt(dst, l.Took.Milliseconds(), 10)
	dst = append(dst, ", "...)
	dst = appendQuoted(dst, l.Header)
	return append(dst, '\n')
}

const hexDigits = "0123456789abcdef"

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// ParseLogLine parses a line, with or without its LF. It accepts lines that Append writes, and
// variants of the paper's grammar: single or double quotation marks, any spaces around commas, a
// comma after the URL, and a header with unescaped quotation marks, which it returns unchanged.
func ParseLogLine(line []byte) (LogLine, error) {
	s := strings.TrimRight(string(line), "\r\n \t")
	if len(s) > MaxLogLine {
		return LogLine{}, fmt.Errorf("longer than %d bytes", MaxLogLine)
	}
	target, rest, err := cutQuoted(s)
	if err != nil {
		return LogLine{}, fmt.Errorf("URL: %w", err)
	}
	if target == "" {
		return LogLine{}, errors.New("URL: it is empty")
	}
	l := LogLine{URL: target}
	rest = strings.TrimPrefix(strings.TrimLeft(rest, " \t"), ",")
	var ms int64
	for _, f := range []struct {
		name string
		to   *int64
	}{{"request size", &l.Sent}, {"answer size", &l.Got}, {"milliseconds", &ms}} {
		var number string
		var comma bool
		number, rest, comma = strings.Cut(rest, ",")
		*f.to, err = parseCount(strings.Trim(number, " \t"))
		if err != nil {
			return LogLine{}, fmt.Errorf("%s: %w", f.name, err)
		}
		if !comma {
			return LogLine{}, fmt.Errorf("%s: no comma after it", f.name)
		}
	}
	if ms > maxMillis {
		return LogLine{}, fmt.Errorf("milliseconds: %d is more than a duration can hold", ms)
	}
	l.Took = time.Duration(ms) * time.Millisecond
	if l.Header, err = lastQuoted(strings.TrimLeft(rest, " \t")); err != nil {
		return LogLine{}, fmt.Errorf("header: %w", err)
	}
	return l, nil
}

const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number from 0 to 2⁶³−1", s)
	}
	return int64(n), nil
}

// cutQuoted removes a quoted string from the front of s.
func cutQuoted(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", "", errors.New("does not begin with a quotation mark")
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			value, err = unescape(s[1:i])
			return value, s[i+1:], err
		}
	}
	return "", "", errors.New("the quotation mark is not closed")
}

// lastQuoted parses s as one quoted string up to its end.
func lastQuoted(s string) (string, error) {
	value, rest, err := cutQuoted(s)
	if err == nil && rest == "" {
		return value, nil
	}
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1], nil // the line's writer did not escape the quotation marks
	}
	if err == nil {
		err = fmt.Errorf("%d bytes after the closing quotation mark", len(rest))
	}
	return "", err
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errors.New(`a lone \ at the end`)
		}
		switch s[i] {
		case '"', '\'', '\\':
			out = append(out, s[i])
		case 'r':
			out = append(out, '\r')
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'x':
			if len(s)-i < 3 {
				return "", errors.New(`\x without two hexadecimal digits`)
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", errors.New(`\x without two hexadecimal digits`)
			}
			out = append(out, byte(n))
			i += 2
		default:
			return "", fmt.Errorf(`unknown escape \%c`, s[i])
		}
	}
	return string(out), nil
}

// LogName returns the name of a robot's log file: "<robot>.<yyyymmddThhmmssZ>", the paper's PRSNAME
// '.' date. A name must not be used twice.
func LogName(robot string, t time.Time) string {
	return robot + "." + t.UTC().Format("20060102T150405Z")
}

// WriteLog writes a log in the form of P3: the file's name, LF, and the gzip'd lines.
func WriteLog(w io.Writer, name string, lines iter.Seq[LogLine]) error {
	if _, err := io.WriteString(w, name+"\n"); err != nil {
		return err
	}
	return writeGzip(w, lines)
}

// ReadLogLines reads the gzip'd part of a log, which follows the name and its LF. It allows at most
// limit inflated bytes. It skips comments (lines that begin with #) and empty lines. It stops at
// the first error, which is a *LineError if a line is wrong.
func ReadLogLines(r io.Reader, limit int64) iter.Seq2[LogLine, error] {
	var at time.Time
	return readGzip(r, limit, MaxLogLine, func(line string) (l LogLine, ok bool, err error) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			if told, ok := strings.CutPrefix(line, timeMark); ok {
				if t, err := time.Parse(time.RFC3339, told); err == nil {
					at = t
				}
			}
			return l, false, nil
		}
		l, err = ParseLogLine([]byte(line))
		l.At = at
		return l, true, err
	})
}

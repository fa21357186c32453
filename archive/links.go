package archive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sheaf/archive/naming"
)

// Link is one reference of a page to another resource, as the robot read it.
type Link struct {
	URL    string // absolute, http or https, printable ASCII, at most 4,096 bytes
	Kind   string // the element that refers, "redirect" and so on; words of small letters, digits and hyphens
	Rel    string // words of the rel attribute; at most 100 bytes
	Anchor string // the text that refers; at most 1,024 bytes
}

// Limits for a line of links, in bytes.
const (
	maxLinkURL    = 4096
	maxLinkKind   = 60
	maxLinkRel    = 100
	maxLinkAnchor = 1024
)

// linksPrefix is the prefix of the index line of the links cell. CDXJ readers skip lines with it.
const linksPrefix = "!links "

func fitsURL(u string) bool {
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	return len(u) <= maxLinkURL && (strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://")) && !strings.ContainsFunc(u, bad)
}

func fitsKind(kind string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
	bad := func(r rune) bool { return r != ' ' && !strings.ContainsRune(letters, r) }
	return kind != "" && len(kind) <= maxLinkKind && kind == strings.TrimSpace(kind) && !strings.ContainsFunc(kind, bad)
}

// fitsText reports whether a text, such as an anchor, can stand in a line.
func fitsText(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// linkChecker checks the lines of a links cell.
type linkChecker struct {
	host   string
	source string // of the last line; it is checked already
}

func (k *linkChecker) line(line string) error {
	f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(f) != 5 {
		return fmt.Errorf("%d fields, want source, target, kind, rel and anchor", len(f))
	}
	if f[0] != k.source {
		switch host, err := naming.HostOf(f[0]); {
		case err != nil:
			return err
		case host != k.host:
			return fmt.Errorf("source %.100q is not of the host %s", f[0], k.host)
		case !fitsURL(f[0]):
			return fmt.Errorf("source %.100q is not written as a URL", f[0])
		}
		k.source = strings.Clone(f[0])
	}
	if !fitsURL(f[1]) || !fitsKind(f[2]) || !fitsText(f[3], maxLinkRel) || !fitsText(f[4], maxLinkAnchor) {
		return fmt.Errorf("target %.100q, its kind %.80q, rel %.100q or anchor %.100q is not written as it must be", f[1], f[2], f[3], f[4])
	}
	return nil
}

// appendLinksLine appends the index line of the links cell.
func (c *Cell) appendLinksLine(b []byte) []byte {
	return append(c.appendNumbers(append(b, linksPrefix+"{"...)), "}\n"...)
}

// parseLinksLine parses the line that appendLinksLine made.
func parseLinksLine(line, host, segment string) (*Cell, error) {
	var l struct {
		Cell *[9]int64 `json:"cell"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, linksPrefix)), &l); err != nil {
		return nil, fmt.Errorf("line of the links cell: %w", err)
	}
	if l.Cell == nil {
		return nil, errors.New("line of the links cell has no cell")
	}
	c := new(Cell)
	if err := c.setNumbers(l.Cell); err != nil {
		return nil, fmt.Errorf("line of the links cell: %w", err)
	}
	c.Name = naming.LinksName(host, segment)
	if c.HeadLen != 0 || c.RecordCRC != 0 || c.HeaderLen == 0 {
		return nil, errors.New("line of the links cell has a record")
	}
	return c, nil
}

// linkLog is the path of a file beside an open segment. The file holds the links of the segment's
// pages until the segment is sealed. It has a group of lines for each cell with links:
//
//	<offset of the cell> SP <bytes that follow> LF
//	source LF
//	<length of the common prefix with the target before, or with the source> SP rest of the line LF …
//
// The links of a page have much in common, so this form takes a third of their length.
//
// A group is written before its cell, so no group is lost if the process ends. After a loss of
// power, the log is cut after its last whole group, and the segment after its last whole cell.
type linkLog string

func linkLogOf(segment string) linkLog { return linkLog(segment + ".links") }

// add appends r's links. at is the offset that r's cell will have. undo removes the links again.
func (l linkLog) add(at int64, r *Record, buf []byte) (undo func() error, _ []byte, err error) {
	const room = 48 // for the head, which gives the length of the rest
	group := append(append(append(buf[:0], make([]byte, room)...), r.URL...), '\n')
	n, before := 0, r.URL
	for i := range r.Links {
		if link := &r.Links[i]; fitsURL(link.URL) && fitsKind(link.Kind) {
			same := commonPrefix(link.URL, before)
			if !fitsText(link.Rel, maxLinkRel) || !fitsText(link.Anchor, maxLinkAnchor) {
				link = &Link{URL: link.URL, Kind: link.Kind}
			}
			group = fmt.Appendf(group, "%d %s\t%s\t%s\t%s\n", same, link.URL[same:], link.Kind, link.Rel, link.Anchor)
			before = link.URL
			n++
		}
	}
	if n == 0 {
		return func() error { return nil }, group, nil
	}
	head := fmt.Appendf(nil, "%d %d\n", at, len(group)-room)
	copy(group[room-len(head):], head)
	f, err := os.OpenFile(string(l), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, group, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Write(group[room-len(head):])
	}
	undo = func() error { return os.Truncate(string(l), size) }
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, group, errors.Join(err, undo())
	}
	return undo, group, nil
}

// maxLinkGroup limits the size of a group, in bytes.
const maxLinkGroup = 1 << 30

// each calls fn for every whole group, in ascending order of offsets, until fn fails. It returns
// the end of the last group that fn accepted, in bytes. It does nothing if there is no log.
func (l linkLog) each(fn func(at int64, source string, links []string) error) (whole int64, err error) {
	f, err := os.Open(string(l))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const readAhead = 64 << 10
	last := int64(-1)
	for in := bufio.NewReaderSize(f, int(min(st.Size(), readAhead))); ; {
		head, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return whole, err
		}
		var at, n int64
		if _, serr := fmt.Sscanf(head, "%d %d\n", &at, &n); err == io.EOF || serr != nil || at <= last || n <= 0 || n > maxLinkGroup {
			return whole, nil
		}
		var body strings.Builder
		body.Grow(int(min(n, readAhead))) // n is not checked yet
		if _, err := io.CopyN(&body, in, n); err == io.EOF {
			return whole, nil
		} else if err != nil {
			return whole, err
		}
		source, links, ok := unpackLinks(body.String())
		if !ok {
			return whole, nil
		}
		if err := fn(at, source, links); err != nil {
			return whole, err
		}
		last, whole = at, whole+int64(len(head))+n
	}
}

// unpackLinks parses a group. It returns the group's source, and each link's line without the
// source.
func unpackLinks(group string) (source string, links []string, ok bool) {
	lines := strings.Split(group, "\n")
	last := len(lines) - 1
	if lines[last] != "" {
		return "", nil, false
	}
	source, lines = lines[0], lines[1:last]
	before := source
	for i, line := range lines {
		count, rest, _ := strings.Cut(line, " ")
		same, err := strconv.Atoi(count)
		if err != nil || same < 0 || same > len(before) {
			return "", nil, false
		}
		lines[i] = before[:same] + rest
		before, _, _ = strings.Cut(lines[i], "\t")
	}
	return source, lines, true
}

var errEnoughLinks = errors.New("no more links are wanted")

// cut drops torn groups, and the groups of cells at or after offset size.
func (l linkLog) cut(size int64) error {
	whole, err := l.each(func(at int64, _ string, _ []string) error {
		if at >= size {
			return errEnoughLinks
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnoughLinks) {
		return err
	}
	if err := os.Truncate(string(l), whole); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeTo writes the links of the cells in the form of a links cell, and returns the number of
// lines. It ends before the first line that does not fit into room bytes.
func (l linkLog) writeTo(out io.Writer, cells []Cell, room int64) (lines int64, err error) {
	check, next, line := linkChecker{}, 0, []byte(nil)
	_, err = l.each(func(at int64, source string, links []string) error {
		for next < len(cells) && cells[next].Offset < at {
			next++
		}
		// If no cell has this group, the cell was lost with the power.
		if next == len(cells) || cells[next].Offset != at || cells[next].URL != source {
			return nil
		}
		if check.host == "" {
			check.host, _ = naming.HostOf(source) // the cell's URL has one
		}
		for _, link := range links {
			line = append(append(append(append(line[:0], source...), '\t'), link...), '\n')
			if check.line(string(line)) != nil {
				continue
			}
			if room -= int64(len(line)); room < 0 {
				return errEnoughLinks
			}
			if _, err := out.Write(line); err != nil {
				return err
			}
			lines++
		}
		return nil
	})
	if errors.Is(err, errEnoughLinks) {
		err = nil
	}
	return lines, err
}

package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/testkit"
)

// forgery breaks one rule. Where it must be noticed is a cell's number, atIndex or atEnd.
type forgery struct {
	name   string
	where  int
	reason string // what the error must speak of
	spoil  func(f *forge)
}

// TestForgeries breaks one rule after another in a segment whose sums, lengths and offsets are all
// right: what no checksum can notice, the verifier must.
func TestForgeries(t *testing.T) {
	testkit.Slow(t)
	var all []forgery
	for _, group := range []func() []forgery{tarForgeries, paxForgeries, warcForgeries, bodyForgeries, runForgeries, fieldForgeries, indexForgeries, lineForgeries, endForgeries} {
		all = append(all, group()...)
	}
	base := newForge(t)
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			f := *base
			f.cells = nil
			for _, c := range base.cells {
				fresh := *c
				fresh.headers = bytes.Clone(c.headers)
				f.cells = append(f.cells, &fresh)
			}
			g.spoil(&f)
			f.refused(t, g.where, g.reason)
		})
	}
	t.Logf("%d forgeries", len(all))
}

// resum sets a tar block's checksum.
func resum(block []byte) {
	copy(block[148:], "        ")
	sum := 0
	for _, c := range block[:blockSize] {
		sum += int(c)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// tarForgeries changes the first and the last byte of every field of both tar blocks.
func tarForgeries() (out []forgery) {
	for i, start := range []int{0, -blockSize} { // from the front: the PAX header; from the back: the file's
		at := 0
		for _, field := range []struct {
			name string
			n    int
		}{{"name", 100}, {"mode", 8}, {"uid", 8}, {"gid", 8}, {"size", 12}, {"mtime", 12}, {"checksum", 8}, {"type", 1}, {"link name", 100},
			{"magic", 6}, {"version", 2}, {"uname", 32}, {"gname", 32}, {"device major", 8}, {"device minor", 8}, {"prefix", 155}, {"unused", 12}} {
			for _, byteAt := range []int{at, at + field.n - 1} {
				out = append(out, forgery{fmt.Sprintf("tar %s %s byte %d", []string{"PAX block's", "file block's"}[i], field.name, byteAt), 0, "", func(f *forge) {
					h := f.cells[0].headers
					block := h[(len(h)+start)%len(h):]
					block[byteAt] ^= 1
					if field.name != "checksum" {
						resum(block)
					}
				}})
			}
			at += field.n
		}
	}
	return append(out,
		forgery{"tar headers of no file", 0, "", func(f *forge) { f.cells[0].headers = f.cells[0].headers[:len(f.cells[0].headers)-blockSize] }},
		forgery{"tar headers of two files", 0, "", func(f *forge) {
			h := f.cells[0].headers
			f.cells[0].headers = append(h, h[len(h)-blockSize:]...)
		}},
		forgery{"tar headers of another page", 3, "is called", func(f *forge) { f.cells[3].headers = f.cells[0].headers }},
		forgery{"no tar headers", 0, "", func(f *forge) { f.cells[0].headers = nil }},
		forgery{"tar headers before an error page", 1, "", func(f *forge) { f.cells[1].headers = f.cells[3].headers }},
		forgery{"tar headers before a revisit", 2, "", func(f *forge) { f.cells[2].headers = f.cells[3].headers }},
	)
}

// paxForgeries puts other PAX records before the page.
func paxForgeries() (out []forgery) {
	type record = [2]string
	change := func(name string, edit func([]record) []record) {
		out = append(out, forgery{"PAX " + name, 0, "", func(f *forge) {
			c := &f.was[0]
			data := []byte{}
			for _, r := range edit([]record{{"path", c.Name}, {attrMIME, c.MIME}, {attrTruncated, c.Truncated}, {attrURL, c.URL}}) {
				data = appendPAX(data, r[0], r[1])
			}
			h := appendTarHeader(nil, "././@PaxHeader", 'x', int64(len(data)), time.Unix(0, 0))
			h = append(append(h, data...), zeros[:padding(int64(len(data)))]...)
			old := f.cells[0].headers
			f.cells[0].headers = append(h, old[len(old)-blockSize:]...)
		}})
	}
	const optional = "reason of the cut" // which earlier writers left out
	for i, name := range []string{"path", "type", optional, "URL"} {
		if name != optional {
			change(name+" missing", func(r []record) []record { return append(r[:i:i], r[i+1:]...) })
		}
		change(name+" twice", func(r []record) []record { return append(r, r[i]) })
		change(name+" other", func(r []record) []record { r[i][1] += "x"; return r })
		change(name+" empty", func(r []record) []record { r[i][1] = ""; return r })
		change(name+" under another key", func(r []record) []record { r[i][0] += "x"; return r })
	}
	for _, key := range []string{"comment", "mtime", "size", "linkpath", "GNU.sparse.major", "SCHILY.xattr.security.capability"} {
		change(key+" besides", func(r []record) []record { return append(r, record{key, "1"}) })
	}
	change("in order 1 0 2 3", func(r []record) []record { return []record{r[1], r[0], r[2], r[3]} })
	change("in order 0 1 3 2", func(r []record) []record { return []record{r[0], r[1], r[3], r[2]} })
	raw := func(name string, edit func(h []byte)) {
		out = append(out, forgery{"PAX " + name, 0, "", func(f *forge) { edit(f.cells[0].headers) }})
	}
	raw("length of a record", func(h []byte) { h[blockSize] ^= 1 })
	raw("byte of the padding", func(h []byte) { h[len(h)-blockSize-1] = 'x' })
	return out
}

// warcForgeries changes every line of every record's header in eight ways.
func warcForgeries() (out []forgery) {
	pages := []string{"WARC-Type", "WARC-Record-ID", "WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Payload-Digest", "WARC-Block-Digest", "WARC-Truncated", "Content-Type", "Content-Length"}
	errorPage := append(pages[:7:7], pages[8:]...)
	revisit := append(append(pages[:4:4], pages[5:7]...), "WARC-Profile", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date", "Content-Type", "Content-Length")
	for n, lines := range [][]string{pages, errorPage, revisit, errorPage} {
		for _, name := range lines {
			for how, edit := range map[string]func(line string) string{
				"missing":          func(string) string { return "" },
				"twice":            func(l string) string { return l + l },
				"in lower case":    func(l string) string { return strings.Replace(l, name, strings.ToLower(name), 1) },
				"other":            func(l string) string { return l[:len(l)-3] + string(l[len(l)-3]^0x11) + "\r\n" },
				"longer":           func(l string) string { return l[:len(l)-2] + "x\r\n" },
				"with a space":     func(l string) string { return l[:len(l)-2] + " \r\n" },
				"after two spaces": func(l string) string { return strings.Replace(l, ": ", ":  ", 1) },
				"ended by LF":      func(l string) string { return l[:len(l)-2] + "\n" },
				"folded":           func(l string) string { return strings.Replace(l, ": ", ":\r\n ", 1) },
			} {
				where := n
				if where < atIndex && how == "missing" && (name == "WARC-IP-Address" || name == "WARC-Refers-To-Date") {
					if name == "WARC-IP-Address" {
						continue // optional, and nothing else tells of it: another record, as good
					}
					where = atIndex // optional, but the index tells of it
				}
				if name == "WARC-Refers-To-Target-URI" && (how == "other" || how == "longer") {
					where = atIndex // another URL, as good, but the index tells of it
				}
				out = append(out, forgery{fmt.Sprintf("WARC cell %d %s %s", n, name, how), where, "", func(f *forge) {
					c := f.cells[n]
					line := name + ": " + c.value(name) + "\r\n"
					c.warc = strings.Replace(c.warc, line, edit(line), 1)
				}})
			}
		}
		out = append(out,
			forgery{fmt.Sprintf("WARC cell %d version", n), n, "WARC/1.1", func(f *forge) { f.cells[n].warc = strings.Replace(f.cells[n].warc, "WARC/1.1", "WARC/1.0", 1) }},
			forgery{fmt.Sprintf("WARC cell %d further line in the wrong place", n), n, "WARC header", func(f *forge) {
				f.cells[n].warc = strings.Replace(f.cells[n].warc, "WARC-Date", "X-Page: 1\r\nWARC-Date", 1)
			}},
			forgery{fmt.Sprintf("WARC cell %d field twice", n), n, "twice", func(f *forge) {
				f.cells[n].warc = strings.Replace(f.cells[n].warc, "Content-Type", "warc-date: 2026-01-01T00:00:00Z\r\nContent-Type", 1)
			}},
			forgery{fmt.Sprintf("WARC cell %d ID of an import in no URI", n), n, "angle brackets", func(f *forge) {
				f.cells[n].warc = strings.Replace(f.cells[n].warc, "Content-Type", "X-Page: 1\r\nContent-Type", 1)
				f.cells[n].set("WARC-Record-ID", "urn:uuid:1")
			}},
			forgery{fmt.Sprintf("WARC cell %d empty field", n), n, "empty", func(f *forge) {
				f.cells[n].warc = strings.Replace(f.cells[n].warc, "Content-Type", "X-Page: \r\nContent-Type", 1)
			}},
			forgery{fmt.Sprintf("WARC cell %d fields too long", n), n, "over", func(f *forge) {
				f.cells[n].warc = strings.Replace(f.cells[n].warc, "Content-Type", "X-Page: "+strings.Repeat("x", 2*MaxOriginal)+"\r\nContent-Type", 1)
			}},
			forgery{fmt.Sprintf("WARC cell %d lines swapped", n), n, "WARC header", func(f *forge) {
				lines := strings.SplitAfter(f.cells[n].warc, "\r\n")
				lines[1], lines[2] = lines[2], lines[1]
				f.cells[n].warc = strings.Join(lines, "")
			}},
		)
		sha1 := "sha1:" + strings.Repeat("A", 32)
		if n == 2 { // which a revisit may have
			sha1 += "A"
		}
		for _, field := range []struct{ name, value, reason string }{
			{"WARC-Target-URI", "http://other.test/", "other.test"}, {"WARC-Target-URI", "ftp://" + testHost + "/", "http"}, {"WARC-Target-URI", "http://" + testHost + "/x#y", "fragment"},
			{"WARC-Date", "1969-12-31T23:59:59Z", "1970"}, {"WARC-Date", "2026-11-21T02:03:04.500Z", "WARC header"}, {"WARC-Date", "2026-11-21T11:03:04+09:00", "WARC header"},
			{"WARC-Payload-Digest", sha1, "digest"}, {"WARC-Payload-Digest", "sha256:" + strings.Repeat("A", 51) + "B====", "digest"},
		} {
			out = append(out, forgery{fmt.Sprintf("WARC cell %d %s %s, with its ID", n, field.name, field.value), n, field.reason, func(f *forge) {
				f.cells[n].set(field.name, field.value)
				f.cells[n].renew(false, true)
			}})
		}
	}
	return out
}

// lineForgeries changes every value of every index line.
func lineForgeries() (out []forgery) {
	edit := func(n int, name, pattern, with string) {
		re := regexp.MustCompile(pattern)
		out = append(out, forgery{fmt.Sprintf("index line %d %s", n, name), atIndex, "line", func(f *forge) {
			f.lines = func(lines []string) []string {
				if !re.MatchString(lines[n]) {
					f.t.Fatalf("line %q has no %s", lines[n], pattern)
				}
				lines[n] = re.ReplaceAllString(lines[n], with)
				return lines
			}
		}})
	}
	for n, more := range [][]string{{"truncated"}, nil, {"refers"}, nil} {
		for _, key := range append([]string{"url", "mime", "status", "digest", "length", "offset"}, more...) {
			edit(n, key+" other", `("`+key+`":"[^"]*)"`, `${1}0"`)
			edit(n, key+" empty", `("`+key+`":")[^"]*"`, `$1"`)
			edit(n, key+" missing", `"`+key+`":"[^"]*",`, ``)
			edit(n, key+" twice", `("`+key+`":"[^"]*",)`, `$1$1`)
			edit(n, key+" under another key", `"`+key+`":`, `"`+key+`_":`)
			edit(n, key+" after a space", `"`+key+`":`, `"`+key+`": `)
			edit(n, key+" escaped", `"`+key+`":"(.)`, `"`+key+`":"\u005c$1`)
		}
		for i := range 9 {
			edit(n, fmt.Sprintf("cell[%d] other", i), `("cell":\[(?:\d+,){`+fmt.Sprint(i)+`}\d+)`, `${1}1`)
			edit(n, fmt.Sprintf("cell[%d] missing", i), `("cell":\[(?:\d+,){`+fmt.Sprint(i)+`})\d+,?`, `$1`)
		}
		edit(n, "cell missing", `,"cell":\[.*?\]`, ``)
		edit(n, "ns other", `"ns":\d+`, `"ns":1`)
		edit(n, "ns missing", `"ns":\d+,`, ``)
		edit(n, "key other", `^(\S+) `, `${1}x `)
		edit(n, "time other", `^(\S+ \d{13})\d`, `${1}9`)
		edit(n, "two spaces", ` `, `  `)
		edit(n, "ended by CRLF", `\n`, "\r\n")
		edit(n, "ended by nothing", `\n`, ``)
		edit(n, "further key", `\}`, `,"x":1}`)
		edit(n, "further text", `\n`, " \n")
		edit(n, "empty line after it", `\n`, "\n\n")
	}
	return out
}

// indexForgeries changes the order of index lines and what is around them.
func indexForgeries() (out []forgery) {
	lines := func(name, reason string, edit func([]string) []string) {
		out = append(out, forgery{"index " + name, atIndex, reason, func(f *forge) { f.lines = edit }})
	}
	lines("lines swapped", "not the line of cell 0", func(l []string) []string { l[0], l[1] = l[1], l[0]; return l })
	lines("line missing", "3 lines for 4 cells", func(l []string) []string { return l[:3] })
	lines("line too many", "only 4 cells", func(l []string) []string { return append(l, l[3]) })
	lines("without lines", "0 lines", func([]string) []string { return nil })
	lines("line without end", "does not end with a newline", func(l []string) []string { return append(l, "x") })
	lines("line over the limit", "longer than", func(l []string) []string { return append(l, strings.Repeat("x", maxLine+1)) })
	for name, at := range map[string]string{
		"of another host": "other.test/_meta/forged.cdxj", "elsewhere": testHost + "/forged.cdxj", "with a bad ID": testHost + "/_meta/.x.cdxj", "as a page": testHost + "/a.html",
		"of another type": testHost + "/_meta/forged.json", "out of the tree": "../_meta/forged.cdxj",
	} {
		out = append(out, forgery{"index called " + name, atIndex, "", func(f *forge) { f.name = at }})
	}
	for _, d := range []time.Duration{-time.Second, time.Second} {
		out = append(out, forgery{"index time " + d.String(), atIndex, "differs", func(f *forge) { f.time = f.time.Add(d) }})
	}
	for _, at := range []int{100, 108, 116, 157, 257, 263, 265, 297, 329, 337, 345, 500} {
		out = append(out, forgery{fmt.Sprintf("index tar header byte %d", at), atIndex, "", func(f *forge) {
			f.headers = func(h []byte) []byte { h[at] ^= 1; resum(h); return h }
		}})
	}
	return append(out,
		forgery{"index smaller in its tar header", atIndex, "", func(f *forge) {
			f.headers = func(h []byte) []byte { h[134]--; resum(h); return h }
		}},
		forgery{"index with further fields", atIndex, "", func(f *forge) { f.extra = appendField(nil, "WI", make([]byte, 16)) }},
		forgery{"index with WS alone", atIndex, "", func(f *forge) { f.extra = appendField(nil, "WS", make([]byte, wsSize)) }},
	)
}

func endForgeries() (out []forgery) {
	end := func(name, reason string, edit func(off, n int64) []byte) {
		out = append(out, forgery{"end " + name, atEnd, reason, func(f *forge) { f.end = edit }})
	}
	for _, d := range []int64{-1, 1, 1 << 40} {
		end(fmt.Sprintf("WI offset %+d", d), "WI says", func(off, n int64) []byte { return EndMember(off+d, n) })
		end(fmt.Sprintf("WI length %+d", d), "WI says", func(off, n int64) []byte { return EndMember(off, n+d) })
	}
	end("WI of nothing", "WI says", func(off, n int64) []byte {
		wi := appendField(nil, "WI", make([]byte, 16))
		return appendMember(nil, wi, nil, deflate.Zeros(1024, true), deflate.CRC(zeros[:]), 1024)
	})
	end("without WI", "WI says", func(int64, int64) []byte { return EndMember(0, 0) })
	end("WI twice", "", func(off, n int64) []byte {
		wi := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(off)), uint64(n))
		return appendMember(nil, appendField(appendField(nil, "WI", wi), "WI", wi), nil, deflate.Zeros(1024, true), deflate.CRC(zeros[:]), 1024)
	})
	end("of one block", "end member", func(off, n int64) []byte {
		wi := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(off)), uint64(n))
		return appendMember(nil, appendField(nil, "WI", wi), nil, deflate.Zeros(512, true), deflate.CRC(zeros[:512]), 512)
	})
	end("in a stored block", "end member", func(off, n int64) []byte {
		wi := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(off)), uint64(n))
		return appendMember(nil, appendField(nil, "WI", wi), nil, deflate.Stored(zeros[:], true), deflate.CRC(zeros[:]), 1024)
	})
	end("missing", "ends before the end member", func(int64, int64) []byte { return nil })
	end("twice", "bytes after", func(off, n int64) []byte { return append(EndMember(off, n), EndMember(off, n)...) })
	return append(out, forgery{"bytes after the end", atEnd, "bytes after", func(f *forge) { f.tail = []byte{0} }})
}

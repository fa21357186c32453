package archive

import (
	"bytes"
	"fmt"
	"strings"

	"sheaf/archive/deflate"
)

// bodyForgeries make body, HTTP header and record disagree.
func bodyForgeries() []forgery {
	other := func(digests, id bool) func(*forge) {
		return func(f *forge) {
			f.cells[0].body = []byte("<p>other")
			f.cells[0].renew(digests, id)
		}
	}
	http := func(n int, from, to string) func(*forge) {
		return func(f *forge) {
			c := f.cells[n]
			payload := c.value("WARC-Payload-Digest")
			c.http = strings.Replace(c.http, from, to, 1)
			c.set("Content-Length", fmt.Sprint(len(c.http)+len(c.cut)+len(c.body)))
			c.renew(true, false)
			c.set("WARC-Payload-Digest", payload)
		}
	}
	return []forgery{
		{"body other", 0, "payload digest", other(false, false)},
		{"body other, with digests", 0, "Record-ID", other(true, false)},
		{"body longer", 0, "", func(f *forge) { f.cells[0].body = []byte("<p>first and more"); f.cells[0].renew(true, true) }},
		{"body shorter", 0, "", func(f *forge) { f.cells[0].body = []byte("<p>"); f.cells[0].renew(true, true) }},
		{"body begins in WP", 0, "must be in the blocks", func(f *forge) { f.cells[0].cut, f.cells[0].body = []byte("<p>"), []byte("first") }},
		{"HTTP header ends in the body", 0, "HTTP header has no end", func(f *forge) {
			c := f.cells[0]
			c.http, c.body = c.http[:len(c.http)-2], append([]byte("\r\n"), c.body...)
		}},
		{"block digest", 0, "block digest", func(f *forge) { f.cells[0].set("WARC-Block-Digest", digestString(make([]byte, 32))) }},
		{"payload digest, with its ID", 0, "payload digest", func(f *forge) {
			f.cells[0].set("WARC-Payload-Digest", digestString(make([]byte, 32)))
			f.cells[0].renew(false, true)
		}},
		{"error page's body other", 1, "payload digest", func(f *forge) { f.cells[1].cut = []byte("not fount") }},
		{"error page's body longer", 1, "Content-Length", func(f *forge) { f.cells[1].cut = []byte("not found."); f.cells[1].renew(true, true) }},
		{"error page's body after WP", 1, "", func(f *forge) { f.cells[1].cut, f.cells[1].body = nil, []byte("not found") }},
		{"error page with a body after WP as well", 1, "", func(f *forge) { f.cells[1].body = []byte("more") }},
		{"revisit with a body", 2, "a revisit has a body", func(f *forge) {
			f.cells[2].cut = []byte("x")
			http(2, "", "")(f)
		}},
		{"revisit with a body after WP", 2, "", func(f *forge) { f.cells[2].body = []byte("x"); http(2, "", "")(f) }},
		{"HTTP status other", atIndex, "index line 1", http(0, "200", "201")},
		{"HTTP status 99", 0, "status", http(0, "200", "099")},
		{"HTTP status missing", 1, "status", http(1, " 404", "")},
		{"HTTP version", 3, "status", http(3, "HTTP/1.1", "HTTX/1.1")},
		{"HTTP type other", 0, "tar header", http(0, "text/html", "text/css")},
		{"HTTP type missing", 3, "tar header", http(3, "Content-Type", "X-Type")},
		{"error page's HTTP type other", atIndex, "index line 2", http(1, "text/plain", "text/html")},
		{"HTTP header without end", 2, "HTTP header has no end", http(2, crlf2, "\r\n")},
		{"HTTP header with LF alone", 2, "HTTP header has no end", http(2, crlf2, "\n\n")},
	}
}

// badRuns returns blocks that decode to data, or would to one of the two readers of a cell, and are
// no run.
func badRuns(data []byte) map[string][]byte {
	half := len(data) / 2
	fixed := func(final bool, match int) []byte {
		var w deflate.FixedWriter
		if final {
			w.Bits(0b011, 3)
		} else {
			w.Bits(0b010, 3)
		}
		if match > 0 {
			w.Match(match, 1)
		}
		for _, c := range data[match:] {
			w.Literal(c)
		}
		w.EndBlock(true)
		return w.Bytes()
	}
	stored := deflate.Stored(data, false)
	unused, length := bytes.Clone(stored), bytes.Clone(stored)
	unused[0] |= 0x80
	length[3] ^= 1
	return map[string][]byte{
		"of a final block":                 deflate.Stored(data, true),
		"with a final block at its end":    append(deflate.Stored(data[:half], false), deflate.Stored(data[half:], true)...),
		"with a final block at its start":  append(deflate.Stored(data[:half], true), deflate.Stored(data[half:], false)...),
		"with a final empty block":         append(bytes.Clone(stored), 3, 0),
		"of a final fixed block":           fixed(true, 0),
		"that ends within a byte":          fixed(false, 0),
		"with a match before its start":    fixed(false, 3),
		"with a byte after it":             append(bytes.Clone(stored), 0),
		"with a block of type 3 after it":  append(bytes.Clone(stored), 6),
		"with unused bits that are set":    unused,
		"with a wrong complement":          length,
		"that lacks its last byte":         stored[:len(stored)-1],
		"that is missing":                  {},
		"that decodes to one byte less":    deflate.Stored(data[:len(data)-1], false),
		"that decodes to one byte more":    deflate.Stored(append(bytes.Clone(data), 0), false),
		"with empty codes after it":        append(bytes.Clone(stored), 4, 0, 0, 0, 0, 0, 0),
		"of which half is another's":       append(deflate.Stored(data[:half], false), deflate.Stored(make([]byte, len(data)-half), false)...),
		"that begins with its length only": stored[1:],
	}
}

// runForgeries put blocks and final blocks where the format has others.
func runForgeries() (out []forgery) {
	base := newForgeData()
	for _, run := range []struct {
		name string
		data []byte
		set  func(f *forge, run []byte)
	}{
		{"tar headers", base.headers, func(f *forge, run []byte) { f.cells[0].headerRun = run }},
		{"heads", base.head, func(f *forge, run []byte) { f.cells[0].headRun = run }},
		{"body", base.body, func(f *forge, run []byte) { f.cells[0].run = run }},
	} {
		for name, blocks := range badRuns(run.data) {
			out = append(out, forgery{"run of " + run.name + " " + name, 0, "", func(f *forge) { run.set(f, blocks) }})
		}
	}
	empty := []byte{0, 0, 0, 0xff, 0xff}
	for n := 1; n <= 2; n++ {
		out = append(out,
			forgery{fmt.Sprintf("run of no tar headers, not empty, in cell %d", n), n, "yield nothing", func(f *forge) { f.cells[n].headerRun = empty }},
			forgery{fmt.Sprintf("run of no body, not empty, in cell %d", n), n, "yield nothing", func(f *forge) { f.cells[n].run = empty }})
	}
	literals := func(n int) []byte {
		var w deflate.FixedWriter
		w.Bits(0b011, 3)
		for range n {
			w.Literal(0)
		}
		w.EndBlock(true)
		return w.Bytes()
	}
	for n, zeros := range map[int]int{0: padding(8), 3: padding(100)} {
		shut, set := padBlock(int64(blockSize-zeros)), padBlock(int64(blockSize-zeros))
		set[len(set)-1] |= 0x80
		ones := bytes.Clone(shut)
		ones[0] ^= 1 << 7
		for name, pad := range map[string][]byte{
			"in a stored block": deflate.Stored(make([]byte, zeros), true), "of literals": literals(zeros), "before a final block": append(deflate.Zeros(zeros, false), 3, 0),
			"of one byte less": deflate.Zeros(zeros-1, true), "of one byte more": deflate.Zeros(zeros+1, true), "of a block more": deflate.Zeros(zeros+blockSize, true), "not final": deflate.Zeros(zeros, false),
			"with an unused bit set": set, "of another byte": ones, "missing": {3, 0}, "twice": append(bytes.Clone(shut), shut...),
		} {
			out = append(out, forgery{fmt.Sprintf("PAD %s in cell %d", name, n), n, "", func(f *forge) { f.cells[n].pad = pad }})
		}
	}
	for n := range 4 {
		stored := []byte{1, 0, 0, 0xff, 0xff}
		out = append(out,
			forgery{fmt.Sprintf("T's end stored in cell %d", n), n, "", func(f *forge) { f.cells[n].tFinal = stored }},
			forgery{fmt.Sprintf("T's end with zeros in cell %d", n), n, "", func(f *forge) { f.cells[n].tFinal = deflate.Zeros(3, true) }},
			forgery{fmt.Sprintf("T's ISIZE in cell %d", n), n, "ISIZE", func(f *forge) { f.cells[n].headerSize = 1 }},
			forgery{fmt.Sprintf("B's ISIZE in cell %d", n), n, "ISIZE", func(f *forge) { f.cells[n].size = 512 }},
			forgery{fmt.Sprintf("WS's ISIZE in cell %d", n), n, "WS", func(f *forge) { f.cells[n].headSize = 1 }},
		)
	}
	return append(out,
		forgery{"PAD of an error page stored", 1, "final block", func(f *forge) { f.cells[1].pad = []byte{1, 0, 0, 0xff, 0xff} }},
		forgery{"PAD of a revisit with 512 zeros", 2, "final block", func(f *forge) { f.cells[2].pad = deflate.Zeros(512, true) }},
	)
}

// forgeData is what the runs of a forge's first cell decode to.
type forgeData struct{ headers, head, body []byte }

func newForgeData() forgeData {
	return forgeData{headers: bytes.Repeat([]byte("tar headers "), 40), head: bytes.Repeat([]byte("heads "), 40), body: []byte("<p>first")}
}

// fieldForgeries put other extra fields before the blocks.
func fieldForgeries() (out []forgery) {
	add := func(name string, fields func(ws, wp []byte) []byte) {
		for n := range 4 {
			out = append(out, forgery{fmt.Sprintf("fields of cell %d: %s", n, name), n, "", func(f *forge) { f.cells[n].fields = fields }})
		}
	}
	join := func(pairs ...any) []byte {
		var b []byte
		for i := 0; i < len(pairs); i += 2 {
			b = appendField(b, pairs[i].(string), pairs[i+1].([]byte))
		}
		return b
	}
	edit := func(b []byte, at int, with byte) []byte {
		b = bytes.Clone(b)
		b[at] ^= with
		return b
	}
	add("WP before WS", func(ws, wp []byte) []byte { return join("WP", wp, "WS", ws) })
	add("no WS", func(ws, wp []byte) []byte { return join("WP", wp) })
	add("no WP", func(ws, wp []byte) []byte { return join("WS", ws) })
	add("neither", func(ws, wp []byte) []byte { return nil })
	add("WS twice", func(ws, wp []byte) []byte { return join("WS", ws, "WS", ws, "WP", wp) })
	add("WP twice", func(ws, wp []byte) []byte { return join("WS", ws, "WP", wp, "WP", wp) })
	add("an unknown one", func(ws, wp []byte) []byte { return join("WS", ws, "XX", []byte("x"), "WP", wp) })
	add("an unknown one last", func(ws, wp []byte) []byte { return join("WS", ws, "WP", wp, "XX", []byte("x")) })
	add("WI besides", func(ws, wp []byte) []byte { return join("WS", ws, "WP", wp, "WI", make([]byte, 16)) })
	add("WL twice", func(ws, wp []byte) []byte { return join("WL", make([]byte, 8), "WS", ws, "WP", wp) })
	add("three bytes more", func(ws, wp []byte) []byte { return append(join("WS", ws, "WP", wp), 'x', 0, 0) })
	add("WS shorter", func(ws, wp []byte) []byte { return join("WS", ws[:16], "WP", wp) })
	add("WS longer", func(ws, wp []byte) []byte { return join("WS", append(bytes.Clone(ws), 0), "WP", wp) })
	add("WP of nothing", func(ws, wp []byte) []byte { return join("WS", ws, "WP", []byte{}) })
	add("WP of a gzip header", func(ws, wp []byte) []byte { return join("WS", ws, "WP", wp[:10]) })
	add("WP over its limit", func(ws, wp []byte) []byte {
		return join("WS", ws, "WP", append(bytes.Clone(wp), bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, maxWP/5)...))
	})
	add("XLEN over its limit", func(ws, wp []byte) []byte {
		return join("WS", ws, "WP", append(bytes.Clone(wp), make([]byte, maxXLEN)...))
	})
	for i := range gzipHeader {
		add(fmt.Sprintf("WP's gzip header byte %d", i), func(ws, wp []byte) []byte { return join("WS", ws, "WP", edit(wp, i, 4)) })
	}
	for i := range wsSize {
		add(fmt.Sprintf("WS byte %d", i), func(ws, wp []byte) []byte { return join("WS", edit(ws, i, 1), "WP", wp) })
	}
	for n := range 4 {
		out = append(out,
			forgery{fmt.Sprintf("fields of cell %d: one in T", n), n, "", func(f *forge) { f.cells[n].tExtra = join("XX", []byte("x")) }},
			forgery{fmt.Sprintf("fields of cell %d: WI in T", n), n, "", func(f *forge) { f.cells[n].tExtra = join("WI", make([]byte, 16)) }},
			forgery{fmt.Sprintf("fields of cell %d: WS and WP in T", n), n, "", func(f *forge) { f.cells[n].tExtra = join("WS", make([]byte, wsSize), "WP", []byte(gzipPlainStart)) }})
	}
	return out
}

package foreign

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"sheaf/archive"
	"sheaf/internal/ctxio"
	"sheaf/internal/mediatype"
	"sheaf/internal/wire"
)

// tree converts a tar of page files, with one directory for each host. A page has its file's time.
// Its URL is the file's path, with bytes that a URL cannot have escaped; index.html stands for its
// directory. Several tars may follow one another.
func (c *conversion) tree(in *stream) error {
	for {
		if err := c.oneTree(in); err != nil {
			return err
		}
		// The end of the gzip stream is the proof that the file is whole.
		if more, err := in.nextTar(); err != nil || !more {
			return err
		}
	}
}

// oneTree converts a tar up to the two blocks of zeros that end it.
func (c *conversion) oneTree(in *stream) error {
	t := tar.NewReader(in)
	for {
		at := in.n
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return in.reading(err, "")
		}
		if err := c.meter.entry(); err != nil {
			return wrong(at, h.Name, wire.ReasonBombRatio, "%v", err)
		}
		if err := c.treeEntry(in, at, h, t); err != nil {
			return err
		}
	}
}

// nextTar skips the zeros after a tar, and reports whether another tar follows. Anything else there
// is an error.
func (s *stream) nextTar() (bool, error) {
	const block = 512
	for {
		head, err := s.r.Peek(block)
		switch {
		case s.disk != nil:
			return false, s.disk
		case err == io.EOF && len(bytes.Trim(head, "\x00")) == 0:
			return false, nil
		case err != nil && err != io.EOF:
			return false, s.reading(err, "")
		case len(head) == block && tarHeader(head):
			return true, nil
		case len(bytes.Trim(head, "\x00")) > 0:
			return false, wrong(s.n, "", wire.ReasonCorruptMember, "behind a tar's end stands what is neither zeros nor another tar; pack all files into one")
		}
		if _, err := io.CopyN(io.Discard, s, int64(len(head))); err != nil {
			return false, s.reading(err, "")
		}
	}
}

func (c *conversion) treeEntry(in *stream, at int64, h *tar.Header, body io.Reader) error {
	name := strings.TrimPrefix(h.Name, "./")
	switch h.Typeflag {
	case tar.TypeReg, 'S', '7': // sparse and contiguous files are read as any other
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeLink, tar.TypeSymlink:
		return wrong(at, h.Name, wire.ReasonLinkEntry, "a link to %.100q; pack the files themselves (tar --dereference --hard-dereference)", h.Linkname)
	default:
		return wrong(at, h.Name, wire.ReasonCorruptMember, "an entry of type %q is no page", h.Typeflag)
	}
	if strings.HasPrefix(name, "/") || path.Clean(name) != name || strings.HasPrefix(name, "../") || name == ".." {
		return wrong(at, h.Name, wire.ReasonPathEscape, "the path is not one within the tree")
	}
	host, rest, ok := c.opt.Hosts.find(name)
	if !ok {
		return wrong(at, h.Name, wire.ReasonForeign, "no directory of it is called like a host, and the host map has none of them; give a host map with a line for the directory")
	}
	if sparse(h) {
		if err := c.meter.made(h.Size); err != nil {
			return wrong(at, h.Name, wire.ReasonBombRatio, "%v", err)
		}
	}
	if err := c.block.fill(ctxio.Reader(c.ctx, body)); err != nil {
		return in.reading(err, h.Name)
	}
	media, err := mediaOf(rest, &c.block)
	if err != nil {
		return err
	}
	_, err = c.append(&archive.Record{
		Kind: archive.Page, URL: "http://" + host + "/" + escapePath(rest), Time: h.ModTime.UTC(),
		HTTP: fmt.Appendf(nil, "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Crawler-Imported: tar\r\n\r\n", media, c.block.size),
		Body: c.block.from(0),
	})
	if err != nil {
		return in.refused(err, at, h.Name)
	}
	return nil
}

// escapePath returns a file's path, whatever its encoding, as a URL's path and query. A question
// mark begins the query: the file was named after its page.
func escapePath(p string) string {
	if dir, file := path.Split(p); file == "index.html" {
		p = dir
	}
	var b bytes.Buffer
	for i := range len(p) {
		c := p[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"#<>\^{|}`+"`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// looked is how many bytes of a file tell its media type.
const looked = 512

// textMedia are media types that cannot be recognised from the text.
var textMedia = map[string]string{".css": "text/css", ".js": "application/javascript", ".xml": "text/xml", ".rdf": "application/rdf+xml"}

// mediaOf returns a file's media type by its first bytes and its extension. It does not use the
// machine's list of types, because the same file must give the same batch everywhere.
func mediaOf(name string, b *block) (string, error) {
	head, err := io.ReadAll(io.LimitReader(b.from(0), looked))
	if err != nil {
		return "", err
	}
	media := mediatype.Sniff("", head)
	ext := strings.ToLower(path.Ext(name))
	switch {
	case media == "text/plain" && textMedia[ext] != "":
		media = textMedia[ext]
	case ext == ".html" || ext == ".htm" || ext == ".shtml":
		if media == "text/plain" || media == "application/octet-stream" { // ISO-2022-JP looks binary
			media = "text/html"
		}
	}
	return media, nil
}

package foreign

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/internal/stream"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// tree converts a tar of page files, with one directory for each host. A page has its file's time.
// Its URL is the file's path; bytes that a URL cannot have are escaped, and index.html stands for
// its directory. Several tars may follow one another.
func (c *conversion) tree(in *input) error { return in.eachEntry(c.ctx, c.treeEntry) }

// tarEntry is an entry of a tar, with its place and its content.
type tarEntry struct {
	*tar.Header
	at   int64 // offset in the inflated file
	body io.Reader
}

// path returns the entry's path in the tree, without a leading "./".
func (e *tarEntry) path() string { return strings.TrimPrefix(e.Name, "./") }

// isFile reports whether the entry is a file. Sparse and contiguous files count as files.
func (e *tarEntry) isFile() bool {
	return e.Typeflag == tar.TypeReg || e.Typeflag == tar.TypeGNUSparse || e.Typeflag == tar.TypeCont
}

// eachEntry calls do with each entry of the tars in the stream, up to the first error.
func (s *input) eachEntry(ctx context.Context, do func(*input, *tarEntry) error) error {
	for {
		if err := s.entriesOfTar(ctx, do); err != nil {
			return err
		}
		// The end of the gzip stream is the proof that the file is whole.
		if more, err := s.nextTar(); err != nil || !more {
			return err
		}
	}
}

// entriesOfTar is eachEntry for a single tar. Two blocks of zeros end the tar.
func (s *input) entriesOfTar(ctx context.Context, do func(*input, *tarEntry) error) error {
	t := tar.NewReader(s)
	for {
		at := s.n
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.reading(err, "")
		}
		if err := s.meter.entry(); err != nil {
			return wrong(at, h.Name, wire.ReasonBombRatio, "%v", err)
		}
		if err := do(s, &tarEntry{h, at, stream.UntilDone(ctx, t)}); err != nil {
			return err
		}
	}
}

// nextTar skips the zeros after a tar, and reports whether another tar follows. Anything else is an
// error.
func (s *input) nextTar() (bool, error) {
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

func (c *conversion) treeEntry(in *input, e *tarEntry) error {
	name := e.path()
	switch {
	case e.isFile():
	case e.Typeflag == tar.TypeDir, e.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case e.Typeflag == tar.TypeLink, e.Typeflag == tar.TypeSymlink:
		return wrong(e.at, e.Name, wire.ReasonLinkEntry, "a link to %.100q; pack the files themselves (tar --dereference --hard-dereference)", e.Linkname)
	default:
		return wrong(e.at, e.Name, wire.ReasonCorruptMember, "an entry of type %q is no page", e.Typeflag)
	}
	if strings.HasPrefix(name, "/") || path.Clean(name) != name || strings.HasPrefix(name, "../") || name == ".." {
		return wrong(e.at, e.Name, wire.ReasonPathEscape, "the path is not one within the tree")
	}
	if c.folders.maps[name] {
		return nil
	}
	host, rest, ok := c.folders.find(name)
	if !ok {
		return wrong(e.at, e.Name, wire.ReasonForeign, "no directory of it is called like a host or is in a host map; give a host map with a line for the directory. Before the hosts' directories may be one, the same for all files")
	}
	if sparse(e.Header) {
		if err := c.meter.made(e.Size); err != nil {
			return wrong(e.at, e.Name, wire.ReasonBombRatio, "%v", err)
		}
	}
	if err := c.block.fill(e.body); err != nil {
		return in.reading(err, e.Name)
	}
	mediaType, err := mediaOf(rest, c.block)
	if err != nil {
		return err
	}
	_, err = c.append(&archive.Record{
		Kind: archive.Page, URL: "http://" + host + "/" + escapePath(rest), Time: e.ModTime.UTC(),
		HTTP: fmt.Appendf(nil, "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Crawler-Imported: tar\r\n\r\n", mediaType, c.block.size),
		Body: c.block.from(0),
	})
	if err != nil {
		return in.refused(err, e.at, e.Name)
	}
	return nil
}

// escapePath turns a file's path, in any encoding, into the path and query of a URL. A question
// mark begins the query: the file was named after its page.
func escapePath(p string) string {
	if dir, file := path.Split(p); file == "index.html" {
		p = dir
	}
	return weburl.Escape(p, ` "#<>\^{|}`+"`")
}

// looked is how many bytes of a file are read to find its media type.
const looked = 512

// textMedia has the media types that are recognised by the file's extension only.
var textMedia = map[string]string{".css": "text/css", ".js": "application/javascript", ".xml": "text/xml", ".rdf": "application/rdf+xml"}

// mediaOf returns a file's media type by its first bytes and its extension. It does not use the
// machine's list of types, because the same file must give the same batch everywhere.
func mediaOf(name string, b *block) (string, error) {
	head, err := io.ReadAll(io.LimitReader(b.from(0), looked))
	if err != nil {
		return "", err
	}
	mediaType := media.Sniff("", head)
	ext := strings.ToLower(path.Ext(name))
	switch {
	case mediaType == "text/plain" && textMedia[ext] != "":
		mediaType = textMedia[ext]
	case ext == ".html" || ext == ".htm" || ext == ".shtml":
		if mediaType == "text/plain" || mediaType == "application/octet-stream" { // ISO-2022-JP looks binary
			mediaType = "text/html"
		}
	}
	return mediaType, nil
}

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"sheaf/archive/deflate"
)

// viewHashes computes the digests of views from the stored bytes as they are read. Methods of a nil
// viewHashes do nothing.
type viewHashes struct {
	kinds        []ViewKind
	single, warc fileHash
	crc          uint32 // of the decoded single-member view
	decoded      int64
	links        *fileHash // nil: there is no links cell
	files        int64     // bytes of the files view, without its end
}

type fileHash struct {
	hash.Hash
	n int64
}

func (f *fileHash) Write(p []byte) (int, error) {
	f.n += int64(len(p))
	return f.Hash.Write(p)
}

func newViewHashes(kinds []ViewKind) *viewHashes {
	if len(kinds) == 0 {
		return nil
	}
	v := &viewHashes{kinds: kinds, single: fileHash{Hash: sha256.New()}, warc: fileHash{Hash: sha256.New()}}
	io.WriteString(&v.single, gzipPlainStart)
	v.warc.Write(warcInfo())
	return v
}

// tarTap returns the writers for the blocks of tar headers and files.
func (v *viewHashes) tarTap() []io.Writer {
	if v == nil {
		return nil
	}
	return []io.Writer{&v.single}
}

// linksTap returns the writers for the blocks of the links cell's file.
func (v *viewHashes) linksTap() []io.Writer {
	if v == nil {
		return nil
	}
	v.links = &fileHash{Hash: sha256.New()}
	io.WriteString(v.links, gzipPlainStart)
	return []io.Writer{v.links}
}

// linksFile ends the links view, after the blocks of the links cell's file.
func (v *viewHashes) linksFile(c *Cell) {
	if v != nil {
		v.links.Write(memberEnd(c.BodyCRC, c.BodyLen))
	}
}

// tarPiece adds the CRC and length of n decoded bytes whose blocks went to tarTap.
func (v *viewHashes) tarPiece(crc uint32, n int64) {
	if v != nil {
		v.crc, v.decoded = deflate.JoinCRC(v.crc, crc, n), v.decoded+n
	}
}

// tarFile adds a file's padding, and the sums of the file and its padding.
func (v *viewHashes) tarFile(c *Cell) {
	if v != nil {
		pad := padding(c.BodyLen)
		v.single.Write(deflate.Zeros(pad, false))
		v.tarPiece(deflate.CRCWithZeros(c.BodyCRC, pad), c.BodyLen+int64(pad))
	}
}

// cell adds a record's cell to the length of the files view.
func (v *viewHashes) cell(c *Cell) {
	if v != nil && c.Kind.HasFile() {
		v.files += c.filesLength()
	}
}

// warcTap adds a record's head, and returns the writers for the blocks of its body.
func (v *viewHashes) warcTap(wp []byte) []io.Writer {
	if v == nil {
		return nil
	}
	v.warc.Write(wp)
	return []io.Writer{&v.warc}
}

func (v *viewHashes) warcEnd(ws []byte) {
	if v != nil {
		v.warc.Write(ws)
	}
}

func (v *viewHashes) infos(s *Summary) map[ViewKind]ViewInfo {
	if v == nil {
		return nil
	}
	v.single.Write(singleEnd(v.crc, v.decoded))
	infos := make(map[ViewKind]ViewInfo, len(v.kinds))
	for _, kind := range v.kinds {
		info := ViewInfo{Size: s.Size, SHA256: s.SHA256}
		switch kind {
		case Single:
			info = ViewInfo{Size: v.single.n, SHA256: hex.EncodeToString(v.single.Sum(nil))}
		case Files:
			info = ViewInfo{Size: v.files + int64(len(EndMember(0, 0)))}
		case WARC:
			info = ViewInfo{Size: v.warc.n, SHA256: hex.EncodeToString(v.warc.Sum(nil))}
		case Links:
			if v.links == nil {
				continue
			}
			info = ViewInfo{Size: v.links.n, SHA256: hex.EncodeToString(v.links.Sum(nil))}
		}
		info.ETag = SegmentETag(kind, s.SHA256)
		infos[kind] = info
	}
	return infos
}

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"sheaf/archive/deflate"
)

// viewHashes computes the digests of views from the stored bytes as they are read. The zero value
// digests nothing.
type viewHashes struct {
	kinds        []ViewKind
	single, warc fileHash
	crc          uint32 // of the decoded single-member view
	decoded      int64
	links        *fileHash // nil: there is no links cell
	files        int64     // bytes of the files view, without its end
}

// fileHash digests a view, unless Hash is nil.
type fileHash struct {
	hash.Hash
	n int64
}

func (f *fileHash) Write(p []byte) (int, error) {
	f.n += int64(len(p))
	if f.Hash == nil {
		return len(p), nil
	}
	return f.Hash.Write(p)
}

func newViewHashes(kinds []ViewKind) viewHashes {
	v := viewHashes{kinds: kinds}
	v.single.Hash, v.warc.Hash = v.newHash(), v.newHash()
	io.WriteString(&v.single, gzipPlainStart)
	v.warc.Write(warcInfo())
	return v
}

// newHash returns nil if no view is wanted.
func (v *viewHashes) newHash() hash.Hash {
	if len(v.kinds) == 0 {
		return nil
	}
	return sha256.New()
}

// linksTap returns the writer for the blocks of the links cell's file.
func (v *viewHashes) linksTap() io.Writer {
	v.links = &fileHash{Hash: v.newHash()}
	io.WriteString(v.links, gzipPlainStart)
	return v.links
}

// linksFile ends the links view, after the blocks of the links cell's file.
func (v *viewHashes) linksFile(c *Cell) { v.links.Write(memberEnd(c.BodyCRC, c.BodyLen)) }

// tarPiece adds the CRC and length of n decoded bytes whose blocks went to single.
func (v *viewHashes) tarPiece(crc uint32, n int64) {
	v.crc, v.decoded = deflate.JoinCRC(v.crc, crc, n), v.decoded+n
}

// tarFile adds a file's padding, and the sums of the file and its padding.
func (v *viewHashes) tarFile(c *Cell) {
	pad := padding(c.BodyLen)
	v.single.Write(deflate.Zeros(pad, false))
	v.tarPiece(deflate.CRCWithZeros(c.BodyCRC, pad), c.BodyLen+int64(pad))
}

// infos describes the views, after all was read.
func (v *viewHashes) infos(s *Summary) map[ViewKind]ViewInfo {
	if len(v.kinds) == 0 {
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

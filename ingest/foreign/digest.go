package foreign

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// claimed is what a WARC says of a block or a payload.
type claimed struct {
	algorithm string // "sha1", "sha256" or "md5"
	sum       string // its bytes
}

// algorithms are those that are known here, with their makers.
var algorithms = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "md5": md5.New}

// parseDigest reads algorithm:value. Crawlers write the value in base 32 or 16, in either case, or
// in base 64, with or without padding; its length tells which. It is false where that is not so, or
// the algorithm not known.
func parseDigest(text string) (d claimed, ok bool) {
	name, value, _ := strings.Cut(text, ":")
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "")
	make := algorithms[name]
	if make == nil {
		return d, false
	}
	size := make().Size()
	value = strings.TrimRight(strings.TrimSpace(value), "=")
	var sum []byte
	var err error
	switch len(value) {
	case hex.EncodedLen(size):
		sum, err = hex.DecodeString(value)
	case base32.StdEncoding.WithPadding(base32.NoPadding).EncodedLen(size):
		sum, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(value))
	case base64.RawStdEncoding.EncodedLen(size):
		sum, err = base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(value))
	default:
		return d, false
	}
	return claimed{name, string(sum)}, err == nil
}

// payload names the content that a record's WARC-Payload-Digest is of: the same however it is
// written.
func (r *warcRecord) payload() string {
	text := r.get("WARC-Payload-Digest")
	if d, ok := parseDigest(text); ok {
		return d.algorithm + ":" + hex.EncodeToString([]byte(d.sum))
	}
	return text
}

// ours writes the digest as our records have it; empty where it is not one that they can have.
func (d claimed) ours() string {
	if d.algorithm != "sha256" {
		return ""
	}
	return "sha256:" + base32.StdEncoding.EncodeToString([]byte(d.sum))
}

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

// claimed is a digest that a WARC record states, of its block or its payload.
type claimed struct {
	algorithm string // "sha1", "sha256" or "md5"
	sum       string // the digest as bytes
}

// algorithm splits a digest written as algorithm:value. h is nil if the algorithm is not known.
func algorithm(text string) (name, value string, h hash.Hash) {
	name, value, _ = strings.Cut(text, ":")
	switch name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", ""); name {
	case "sha1":
		h = sha1.New()
	case "sha256":
		h = sha256.New()
	case "md5":
		h = md5.New()
	}
	return name, value, h
}

// parseDigest reads a digest. Crawlers write the value in base 32 or 16, in either case, or in base
// 64, with or without padding; the length tells which. For other values and unknown algorithms ok
// is false.
func parseDigest(text string) (d claimed, ok bool) {
	name, value, h := algorithm(text)
	if h == nil {
		return d, false
	}
	size := h.Size()
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

// payload returns the record's WARC-Payload-Digest in one form. A digest that cannot be parsed
// stays unchanged.
func (r *warcRecord) payload() string {
	text := r.get("WARC-Payload-Digest")
	if d, ok := parseDigest(text); ok {
		return d.algorithm + ":" + hex.EncodeToString([]byte(d.sum))
	}
	return text
}

// stored returns the digest as revisits in segments have it, or "" if the digest is empty.
func (d claimed) stored() string {
	if d.sum == "" {
		return ""
	}
	return d.algorithm + ":" + base32.StdEncoding.EncodeToString([]byte(d.sum))
}

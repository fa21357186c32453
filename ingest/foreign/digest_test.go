package foreign

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// Digests are understood however a crawler writes them.
func TestDigests(t *testing.T) {
	t.Parallel()
	block := "HTTP/1.1 200 OK\r\n\r\n<p>a"
	forms := map[string]func([]byte) string{
		"hex": hex.EncodeToString, "HEX": func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		"base32": base32.StdEncoding.EncodeToString, "base32, small": func(b []byte) string { return strings.ToLower(base32.StdEncoding.EncodeToString(b)) },
		"base64": base64.StdEncoding.EncodeToString, "base64, no padding": base64.RawStdEncoding.EncodeToString, "base64 of URLs": base64.URLEncoding.EncodeToString,
	}
	of := map[string]func(string) []byte{
		"sha1": func(s string) []byte { b := sha1.Sum([]byte(s)); return b[:] }, "SHA-256": func(s string) []byte { b := sha256.Sum256([]byte(s)); return b[:] },
		"md5": func(s string) []byte { b := md5.Sum([]byte(s)); return b[:] },
	}
	for name, sum := range of {
		for form, write := range forms {
			record := func(digested string) string {
				return fmt.Sprintf("WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\nWARC-Date: 2009-03-01T12:00:00Z\r\n"+
					"WARC-Target-URI: http://a.test/\r\n%sWARC-Block-Digest: %s:%s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", answer, name, write(sum(digested)), len(block), block)
			}
			if _, err := convert(t, record(block), nil); err != nil {
				t.Errorf("%s in %s: %v", name, form, err)
			}
			var fault *Error
			if _, err := convert(t, record("another"), nil); !errors.As(err, &fault) || fault.Reason != wire.ReasonSHAMismatch {
				t.Errorf("%s of another block in %s: %v", name, form, err)
			}
		}
	}
}

// A revisit finds its page by a payload digest in any form. One of a page that is not in the file
// keeps the digest that it states.
func TestRevisitByDigest(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("<p>a"))
	in32, in64 := "sha256:"+base32.StdEncoding.EncodeToString(sum[:]), "sha256:"+base64.StdEncoding.EncodeToString(sum[:])
	page := func(digest string) string {
		return rec("1.1", "response", "http://a.test/", answer+"WARC-Payload-Digest: "+digest+"\r\n", "HTTP/1.1 200 OK\r\n\r\n<p>a")
	}
	revisit := func(url, digest string) string {
		return rec("1.1", "revisit", url, answer+"WARC-Refers-To-Date: 2009-02-01T12:00:00Z\r\nWARC-Payload-Digest: "+digest+"\r\n", "HTTP/1.1 200 OK\r\n\r\n")
	}
	sha1 := make([]byte, 20)
	for name, c := range map[string]struct{ file, digest string }{
		"the same form":        {page(in64) + revisit("http://a.test/", in64), in32},
		"another form":         {page("sha-256:"+hex.EncodeToString(sum[:])) + revisit("http://a.test/", in64), in32},
		"of an earlier file":   {page(in32) + revisit("http://a.test/other", in64), in32},
		"of an earlier, SHA-1": {page(in32) + revisit("http://a.test/other", "sha1:"+base64.StdEncoding.EncodeToString(sha1)), "sha1:" + base32.StdEncoding.EncodeToString(sha1)},
		"no digest at all":     {page(in32) + revisit("http://a.test/other", "sha256:none"), ""},
	} {
		got, err := convert(t, c.file, nil)
		testkit.Must(t, err)
		if got.Revisits != 1 {
			t.Errorf("%s: %d revisits, want 1", name, got.Revisits)
		}
		for _, cell := range got.cells {
			if cell.Kind == archive.Revisit && cell.Digest != c.digest {
				t.Errorf("%s: the revisit is of %s, want %s", name, cell.Digest, c.digest)
			}
		}
	}
}

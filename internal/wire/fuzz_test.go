package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

// envelope signs a body.
func envelope(t testing.TB, body string, key ed25519.PrivateKey) []byte {
	data, err := json.Marshal(signed{Body: body, Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(body)))})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzManifest parses arbitrary bytes as a signed body and as a whole manifest file. A manifest
// that is accepted is valid and can be written and read again.
func FuzzManifest(f *testing.F) {
	public, key, _ := ed25519.GenerateKey(nil)
	digest := strings.Repeat("0123456789abcdef", 4)
	at := time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC)
	m := &Manifest{
		Format: ManifestFormat, Batch: NewBatchID("waseda", at, 1), Robot: "waseda", Version: "1", Generation: 3, Created: at, Size: 300, SHA256: digest,
		Hosts: []Host{{Name: "a.jp", Length: 100, SHA256: digest, Records: 1, First: at, Last: at}, {Name: "b.jp:81", Offset: 100, Length: 100, SHA256: digest}},
		Clock: &Clock{},
	}
	body, _ := json.Marshal(m)
	whole, _ := m.Sign(key)
	for _, text := range []string{string(body), "{}", "null", "[]", `{"format":1,"size":9223372036854775807}`,
		strings.Replace(string(body), `"offset":100`, `"offset":-1`, 1), strings.Replace(string(body), `"length":100`, `"length":9223372036854775807`, 2)} {
		f.Add([]byte(text))
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := OpenManifest(data, public); err == nil && !strings.Contains(string(whole), m.SHA256) {
			t.Fatalf("a manifest with a wrong signature was accepted: %s", data)
		}
		PeekManifest(data)
		m, err := OpenManifest(envelope(t, string(data), key), public)
		if err != nil {
			return
		}
		end := int64(0)
		for _, h := range m.Hosts {
			if h.Offset != end || h.Length <= 0 || h.Offset+h.Length > m.Size || h.Offset+h.Length < 0 {
				t.Fatalf("range %d+%d of %d bytes", h.Offset, h.Length, m.Size)
			}
			end += h.Length
		}
		if !m.Batch.Valid() || strings.ContainsAny(string(m.Batch), "/\\.\x00") {
			t.Fatalf("batch ID %q is no file's name", m.Batch)
		}
		unsigned, err := m.Unsigned()
		if err != nil {
			t.Fatal(err)
		}
		again, err := PeekManifest(unsigned)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		twice, err := again.Unsigned()
		if err != nil || !reflect.DeepEqual(unsigned, twice) {
			t.Fatalf("written twice, and not the same: %v\n%s\n%s", err, unsigned, twice)
		}
		if _, err := OpenManifest(unsigned, public); err == nil {
			t.Fatal("what nobody has signed passes for signed")
		}
	})
}

// FuzzHandover parses arbitrary bytes as the file of a hand-over. What is accepted is what was
// signed.
func FuzzHandover(f *testing.F) {
	public, key, _ := ed25519.GenerateKey(nil)
	h := &Handover{
		Format: HandoverFormat, Robot: "waseda", Host: "a.jp:81", Rest: HandoverRest{WaitMS: 5},
		Rules: []HandoverRules{{Scheme: "http", Text: []byte("User-agent: *"), ForMS: 7}}, Hours: &HandoverHours{Day: 20_000},
	}
	whole := func(h *Handover, body []byte) []byte {
		head, err := h.File(int64(len(body)), Digest(body), key)
		if err != nil {
			f.Fatal(err)
		}
		return append(head, body...)
	}
	read := func(file []byte) (*Handover, []byte, error) {
		h, r, err := OpenHandover(bytes.NewReader(file), public)
		if err != nil {
			return nil, nil, err
		}
		body, err := io.ReadAll(r)
		return h, body, err
	}
	right := whole(h, []byte("body"))
	head, _ := json.Marshal(h)
	f.Add(right, head)
	f.Add(right[:len(right)-1], []byte(`{"format":1,"robot":"w","host":"x","size":4}`))
	f.Add(append(right, 'x'), []byte("{}"))
	f.Add([]byte("\n"), []byte("{}"))
	f.Fuzz(func(t *testing.T, file, head []byte) {
		if got, body, err := read(file); err == nil && (got.Host != h.Host || string(body) != "body") {
			t.Fatalf("accepted, and nobody has signed it: %q", file)
		}
		got, body, err := read(append(append(envelope(t, string(head), key), '\n'), "body"...))
		if err != nil {
			return
		}
		if twice, _, err := read(whole(got, body)); err != nil || !reflect.DeepEqual(got, twice) {
			t.Fatalf("%v: %+v, %+v", err, got, twice)
		}
	})
}

// FuzzReceipt parses arbitrary bytes as a receipt, signed and unsigned.
func FuzzReceipt(f *testing.F) {
	public, key, _ := ed25519.GenerateKey(nil)
	r := &Receipt{Batch: "waseda-20261120T150405Z-1", State: StateQuarantined, Reason: ReasonClock, Detail: "offset 0", At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	body, _ := json.Marshal(r)
	whole, _ := r.Sign(key)
	f.Add(body)
	f.Add(whole)
	f.Add([]byte(`{"signed":"{}","ed25519":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := OpenReceipt(data, public); err == nil && got.State == StatePublished {
			t.Fatalf("a receipt with a wrong signature was accepted: %s", data)
		}
		got, err := OpenReceipt(envelope(t, string(data), key), public)
		if err != nil {
			return
		}
		sealed, err := got.Sign(key)
		if err != nil {
			return // JSON can read this date but not write it
		}
		if again, err := OpenReceipt(sealed, public); err != nil || again.SHA256 != got.SHA256 || again.State != got.State {
			t.Fatalf("%v: %+v, %+v", err, got, again)
		}
	})
}

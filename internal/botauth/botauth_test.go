package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/wire"
)

func signer(t testing.TB, agent string) *Signer {
	t.Helper()
	s, err := New(agent, ed25519.NewKeyFromSeed([]byte("a robot's own key, of 32 bytes ..")[:32]))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A signature is over the host as it is asked, the service's address and the times, with the key of
// the period, whose proof the service has had since the period before.
func TestKeysAreKnownBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	s := signer(t, "https://archive.example.jp/")
	known := map[string]ed25519.PublicKey{}
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	used := map[string]bool{}
	for range 100 {
		for _, p := range s.Proofs(now) {
			if !Good(&p, "archive.example.jp", now) {
				t.Fatalf("%v: a proof is not good", now)
			}
			if now.Before(p.Begins) {
				known[KeyID(p.Key)] = p.Key
			} else if len(used) == 0 {
				known[KeyID(p.Key)] = p.Key // the robot's first
			}
		}
		h := http.Header{}
		s.Sign(h, "https", "WWW.Example.JP:443", now)
		input := strings.TrimPrefix(h.Get("Signature-Input"), "sheaf=")
		_, rest, _ := strings.Cut(input, `keyid="`)
		id, _, _ := strings.Cut(rest, `"`)
		base := "\"@authority\": www.example.jp\n\"signature-agent\": \"https://archive.example.jp\"\n\"@signature-params\": " + input
		if known[id] == nil || !ed25519.Verify(known[id], []byte(base), decoded(t, h.Get("Signature"))) {
			t.Fatalf("%v: %s by a key that is known: %v", now, input, known[id] != nil)
		}
		used[id] = true
		now = now.Add(24 * time.Hour)
	}
	if len(used) != 5 && len(used) != 4 {
		t.Errorf("%d keys in 100 days", len(used))
	}
}

func decoded(t *testing.T, item string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimPrefix(item, "sheaf="), ":"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A proof is good for one directory, for a day, and only unchanged.
func TestProofsThatAreNotGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, now := signer(t, "https://archive.example.jp"), time.Now()
		first, again := s.Proofs(now)[0], s.Proofs(now.Add(time.Minute))[0]
		if first.Nonce != again.Nonce {
			t.Error("a minute later the proof is another: the database would write it with each heartbeat")
		}
		for what, spoil := range map[string]func(p *wire.SigningKey) string{
			"another directory":    func(*wire.SigningKey) string { return "archive.example.com" },
			"another key":          func(p *wire.SigningKey) string { p.Key = s.Proofs(now)[1].Key; return "archive.example.jp" },
			"no key":               func(p *wire.SigningKey) string { p.Key = nil; return "archive.example.jp" },
			"a longer time":        func(p *wire.SigningKey) string { p.Expires++; return "archive.example.jp" },
			"a nonce with a quote": func(p *wire.SigningKey) string { p.Nonce = `x";x="`; return "archive.example.jp" },
			"a key for years":      func(p *wire.SigningKey) string { p.Ends = now.AddDate(1, 0, 0); return "archive.example.jp" },
		} {
			p := first
			if at := spoil(&p); Good(&p, at, now) {
				t.Errorf("%s: the proof is good", what)
			}
		}
		if time.Sleep(25 * time.Hour); Good(&first, "archive.example.jp", time.Now()) {
			t.Error("the proof is good after a day")
		}
	})
}

func TestAgentsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"", "archive.example.jp", "ftp://archive.example.jp", "https://", "https://archive.example.jp/keys", "https://user@archive.example.jp", "https://archive.example.jp?x", "https://a.jp/\n", `https://a"b.jp`, "https://アーカイブ.jp", "https://a%20b.jp", "https://a%FFb.jp", "https://" + strings.Repeat("a", 300)} {
		if s, err := New(agent, ed25519.NewKeyFromSeed(make([]byte, 32))); err == nil {
			t.Errorf("%q is taken as %q", agent, s.agent[0])
		}
	}
}

// Whatever a host's name is, the header fields are of bytes that any server reads, and verify.
func TestSignaturesForOddHosts(t *testing.T) {
	t.Parallel()
	s, now := signer(t, "https://archive.example.jp"), time.Now()
	for _, host := range []string{"www.example.jp", "a_b.example.jp:8080", "[2001:db8::1]:8443", "xn--wgv71a.jp", "日本.jp", "\xff\x00\r\n\"", strings.Repeat("a.", 2000)} {
		h := http.Header{}
		s.Sign(h, "https", host, now)
		for name, values := range h {
			if strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' || c >= 0x7f }) {
				t.Errorf("%q: %s: %q", host, name, values[0])
			}
		}
		seen, err := Read(h)
		if err != nil || !seen.By(s.Proofs(now)[0].Key, strings.ToUpper(host)) && !seen.By(s.Proofs(now)[0].Key, host) {
			t.Errorf("%q: %+v, %v", host, seen, err)
		}
		if seen.By(s.Proofs(now)[1].Key, host) || seen.By(nil, host) || seen.By(s.Proofs(now)[0].Key, host+"x") {
			t.Errorf("%q: it verifies by another key, or for another host", host)
		}
	}
}

// What is read as a signature has all of its parts, whatever bytes are pasted.
func FuzzRead(f *testing.F) {
	h := http.Header{}
	signer(f, "https://archive.example.jp").Sign(h, "https", "www.example.jp", time.Now())
	f.Add(h.Get("Signature-Agent"), h.Get("Signature-Input"), h.Get("Signature"))
	f.Add("", "sheaf=()", "sheaf=::")
	f.Fuzz(func(t *testing.T, agent, input, signature string) {
		seen, err := Read(http.Header{"Signature-Agent": {agent}, "Signature-Input": {input}, "Signature": {signature}})
		if seen != nil && (err != nil || seen.KeyID == "" || len(seen.signature) == 0) {
			t.Errorf("%+v, %v", seen, err)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s, h := signer(b, "https://archive.example.jp"), http.Header{}
	for b.Loop() {
		s.Sign(h, "http", "www.example.jp", time.Now())
	}
}

package removal

import (
	"strings"
	"testing"

	"sheaf/archive/upkeep"
)

// Whatever an asker types is refused, or has a name that mails and DNS can bear, addresses at that
// site only, and take-downs that can be carried out. Its normal form is its own.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"www.example.jp", "http://日本語.jp:8080/a?b#c", "https://8.8.8.8/~me/", "[2606:4700::1111]:81", "x\r\ny.jp", "a..jp", "http://u:p@a.jp/", "EXAMPLE.jp.", "_a.b.jp", "http://a.jp:443/x"} {
		for _, kind := range []Kind{Host, Prefix, Domain} {
			f.Add(string(kind), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind, text string) {
		got, err := parseTarget(Kind(kind), text)
		if err != nil {
			return
		}
		if again, err := parseTarget(Kind(kind), got.text); err != nil || kind != string(Prefix) && again != got {
			t.Errorf("%q has the normal form %q, which is %+v, %v", text, got.text, again, err)
		}
		if strings.ContainsFunc(got.text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>"`, r) }) {
			t.Errorf("%q has the normal form %q", text, got.text)
		}
		if r := (&Request{Kind: got.kind, Target: got.text}); r.target() != got {
			t.Errorf("%+v is kept as %+v", got, r.target())
		}
		for _, address := range got.addresses() {
			_, at, _ := strings.Cut(address, "@")
			if _, ok := parseAddress(address); !ok || at != got.name() && !strings.HasSuffix(got.name(), "."+at) {
				t.Errorf("%q: %s is no address at it", text, address)
			}
		}
		if got.kind == Domain {
			return
		}
		if err := upkeep.CheckTakedown(got.stone("why", "who")); err != nil {
			t.Errorf("%q cannot be taken down: %v", text, err)
		}
	})
}

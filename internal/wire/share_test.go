package wire_test

import (
	"fmt"
	"testing"

	"sheaf/internal/wire"
)

// Every URL belongs to exactly one robot, and each robot gets about as many.
func TestSharesAreOneRobotsEach(t *testing.T) {
	const robots, urls = 5, 10_000
	counts := make([]int, robots)
	for n := range urls {
		url := fmt.Sprintf("http://www.example.jp/%d.html", n)
		owners := 0
		for part := range robots {
			if (wire.Share{Part: part, Of: robots, Split: true}).Has(url) {
				owners++
				counts[part]++
			}
		}
		if owners != 1 {
			t.Fatalf("%s is of %d robots", url, owners)
		}
		if !(wire.Share{Part: 1, Of: 2}).Has(url) || !(wire.Share{}).Has(url) {
			t.Fatalf("%s is left out of a copy or of a whole host", url)
		}
	}
	for part, n := range counts {
		if n < urls/robots*9/10 || n > urls/robots*11/10 {
			t.Errorf("robot %d has %d of %d URLs", part, n, urls)
		}
	}
}

func TestBadSharesAreRefused(t *testing.T) {
	for _, line := range []string{"a.jp\t\tsplit 2/2", "a.jp\t\tsplit -1/2", "a.jp\t\tcopy 0/1", "a.jp\t\tsplit 0/65", "a.jp\t\tsplit x/2", "a.jp\t\tsplit 1", "a.jp\t\tdepth -1", "a.jp\t"} {
		l, err := wire.ParseHostLine(line)
		if line == "a.jp\t\tsplit 1" {
			if err == nil {
				t.Errorf("%q was taken as %+v", line, l)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q was taken as %+v", line, l)
		}
	}
	if l, err := wire.ParseHostLine("a.jp\t\tcolour red split 0/2"); err != nil || !l.Share.Split {
		t.Errorf("unknown words change the result: %+v, %v", l, err)
	}
}

// Hosts of which equally little is known have hand-overs of their own.
func TestHandoverID(t *testing.T) {
	a, b := &wire.Handover{Host: "a.jp", SHA256: wire.Digest(nil)}, &wire.Handover{Host: "b.jp", SHA256: wire.Digest(nil)}
	if a.ID() == b.ID() {
		t.Errorf("two hosts have the hand-over %s", a.ID())
	}
}

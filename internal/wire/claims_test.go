package wire

import (
	"strings"
	"testing"
	"time"
)

// What a manifest claims of its hosts' coverage is shown to readers: it has counts and reasons, and
// nothing else.
func TestCoverageClaims(t *testing.T) {
	for name, c := range map[string]struct {
		coverage Coverage
		want     string // part of the error; empty: none
	}{
		"as robots write it": {Coverage{
			Host: "a.example.jp:8080", Collected: 3, Answers: map[string]int64{"404": 1}, Failed: map[string]int64{"dns": 2}, Cut: map[string]int64{"page_links": 9},
			LeftWhy: "window", URLs: []CoveredURL{{"http://a.example.jp/<b>", "refused robots.txt"}},
		}, ""},
		"negative":         {Coverage{Host: "a.jp", Left: -1}, "left is -1"},
		"negative, in map": {Coverage{Host: "a.jp", Failed: map[string]int64{"dns": -5}}, "dns is -5"},
		"more than is":     {Coverage{Host: "a.jp", Collected: 1 << 62}, "collected"},
		"markup as key":    {Coverage{Host: "a.jp", Marked: map[string]int64{"<script>alert(1)</script>": 1}}, "no reason"},
		"markup as why":    {Coverage{Host: "a.jp", LeftWhy: "<b>"}, "no reason"},
		"markup of a URL":  {Coverage{Host: "a.jp", URLs: []CoveredURL{{"http://a.jp/", `"onload=x`}}}, "no reason"},
		"markup as host":   {Coverage{Host: "<img>"}, "no host"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manifest{
				Format: ManifestFormat, Batch: "r1-20261120T150405Z-1", Robot: "r1", Created: time.Now(), Size: 1, SHA256: Digest(nil), Coverage: []Coverage{c.coverage},
			}
			err := m.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

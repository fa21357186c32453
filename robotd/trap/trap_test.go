package trap

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"/":                          "",
		"/index.html":                "",
		"/a/a/a/":                    "",
		"/a/a/a/a/":                  "path_repeats",
		"/deep/more/deep/more/":      "",
		"/a/b/a/b/a/b/a/b/":          "path_repeats",
		"/x/a/b/c/a/b/c/a/b/c/a/b/c": "path_repeats",
		"/deep" + strings.Repeat("/deep/more", 6): "path_repeats",
		"/ja/doc/ja/doc/":                         "",
		"/1/2/3/4/5/6/7/8/9/10/11/12/":            "",
		strings.Repeat("/x/y1", 3) + "/z":         "",
		"/cal/2026/1/":                            "",
		"/cal/2029/12/31":                         "",
		"/cal/2030/1/":                            "calendar",
		"/archive/1923/09/01.html":                "",
		"/shelf/1405/11/":                         "", // no year: a shelf
		"/item/88012/3":                           "",
		"/2031-02-01/":                            "calendar",
		"/cal?y=2026&m=1":                         "",
		"/cal?y=2400&m=1":                         "calendar",
		"/cal?month=2150-01":                      "calendar",
		"/search?year=12":                         "",
		"/q?b=2&a=1":                              "",
		"/q?" + strings.Repeat("a[]=1&", 9):       "parameters",
	} {
		if got := Check(at, now); got != want {
			t.Errorf("Check(%s) = %q, want %q", at, got, want)
		}
	}
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("p%d=1", i))
	}
	if got := Check("/q?"+strings.Join(many, "&"), now); got != "parameters" {
		t.Errorf("25 parameters: %q", got)
	}
}

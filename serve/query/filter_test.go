package query

import (
	"net/url"
	"strings"
	"testing"
)

// An expression that is none is shown as it was given, and what is none by itself is none here.
func TestWrongFilterShowsItself(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"a)(b", "a)|(b", "[", "*"} {
		_, err := Parse(url.Values{"url": {"http://a.jp/"}, "filter": {"~url:" + expr}}, nil)
		if err == nil || !strings.Contains(err.Error(), "~url:"+expr) || strings.Contains(err.Error(), `\A`) {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

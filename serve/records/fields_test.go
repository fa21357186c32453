package records

import (
	"net/url"
	"strings"
	"testing"
)

// The error for a wrong expression shows it as it was given. An expression that is wrong by itself
// is not made right by the brackets around it.
func TestWrongFilterShowsItself(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"a)(b", "a)|(b", "[", "*"} {
		_, err := ParseQuery(url.Values{"url": {"http://a.jp/"}, "filter": {"~url:" + expr}}, nil)
		if err == nil || !strings.Contains(err.Error(), "~url:"+expr) || strings.Contains(err.Error(), `\A`) {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

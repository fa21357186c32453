package problem_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sheaf/internal/problem"
)

// A body that is not exactly what a path takes is refused, so that a misspelt limit never makes a
// request mean more than was asked for.
func TestReadJSON(t *testing.T) {
	t.Parallel()
	type limits struct {
		Host    string `json:"host"`
		Edition string `json:"edition"`
	}
	for name, c := range map[string]struct {
		kind, body string
		reason     string // of the refusal; empty: the body is taken
	}{
		"right":          {"application/json", `{"host": "www.example.jp", "edition": "20261121"}`, ""},
		"no type":        {"", `{"host": "www.example.jp"}`, ""},
		"any bytes":      {"application/octet-stream", `{"host": "www.example.jp"}`, ""}, // as robots say
		"charset":        {"application/json; charset=utf-8", `{}`, ""},
		"misspelt":       {"application/json", `{"host": "www.example.jp", "edtion": "20261121"}`, "bad_body"},
		"something else": {"application/json", `{} {}`, "bad_body"},
		"wrong type":     {"application/json", `{"host": 1}`, "bad_body"},
		"cut":            {"application/json", `{"host": "www`, "bad_body"},
		"form":           {"application/x-www-form-urlencoded", `host=www.example.jp`, "media_type"},
		"long":           {"application/json", `{"host": "` + strings.Repeat("x", 1<<20) + `"}`, "too_large"},
		"empty":          {"application/json", ``, "bad_body"},
	} {
		for how, read := range map[string]func(*limits, string, string) error{
			"wanted": func(l *limits, kind, body string) error {
				return problem.ReadJSON(httptest.NewRecorder(), post(kind, body), l)
			},
			"optional": func(l *limits, kind, body string) error {
				return problem.ReadJSONIfAny(httptest.NewRecorder(), post(kind, body), l)
			},
		} {
			want := c.reason
			if name == "empty" && how == "optional" {
				want = ""
			}
			var got limits
			err, e := read(&got, c.kind, c.body), (*problem.Error)(nil)
			if want == "" && err != nil || want != "" && (!errors.As(err, &e) || e.Reason != want) {
				t.Errorf("%s, %s: %v, want the reason %q", name, how, err, want)
			}
		}
	}
}

func post(kind, body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r
}

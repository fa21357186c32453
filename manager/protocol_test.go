package manager_test

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestProtocolExamples replays every example of PROTOCOL.md in turn, against one manager.
func TestProtocolExamples(t *testing.T) {
	doc, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, nil)
	token, _, err := s.Admit(t.Context(), "robot-1")
	if err != nil {
		t.Fatal(err)
	}
	s.add("http://www.etl.go.jp/")
	var secret string
	examples := regexp.MustCompile("(?s)```\n(> .*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(examples) < 8 {
		t.Fatalf("only %d examples found", len(examples))
	}
	for _, ex := range examples {
		e := parseExample(t, strings.ReplaceAll(ex[1], "TOKEN", token))
		var resp *http.Response
		var body string
		if secret == "" {
			resp, body = s.do(e.method, e.path, "", "", e.body)
			if m := regexp.MustCompile(`"secret":"([^"]+)"`).FindStringSubmatch(body); m != nil {
				secret = m[1]
			}
		} else {
			resp, body = s.do(e.method, e.path, "robot-1", secret, e.body)
		}
		if strconv.Itoa(resp.StatusCode) != e.status || resp.Header.Get("Content-Type") != e.contentType {
			t.Errorf("%s %s: %d %s, want %s %s\n%s", e.method, e.path, resp.StatusCode, resp.Header.Get("Content-Type"), e.status, e.contentType, body)
			continue
		}
		if e.unzip {
			body = unzip(t, body)
		}
		want := "^" + strings.ReplaceAll(regexp.QuoteMeta(e.answer), "…", ".*") + "$"
		if !regexp.MustCompile(want).MatchString(strings.TrimSpace(body)) {
			t.Errorf("%s %s: got %swant %s", e.method, e.path, body, e.answer)
		}
	}
}

type example struct {
	method, path        string
	body                []byte
	status, contentType string
	answer              string
	unzip               bool
}

// parseExample reads lines "> METHOD path", "> body"…, "< status type", "< body"….
func parseExample(t *testing.T, text string) example {
	t.Helper()
	var sent, got []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "> "); ok {
			sent = append(sent, rest)
		} else if rest, ok := strings.CutPrefix(line, "< "); ok {
			got = append(got, rest)
		} else {
			t.Fatalf("PROTOCOL.md: example line %q begins with neither > nor <", line)
		}
	}
	var e example
	e.method, e.path, _ = strings.Cut(sent[0], " ")
	e.status, e.contentType, _ = strings.Cut(got[0], " ")
	var plain, zipped strings.Builder
	for _, line := range sent[1:] {
		if rest, ok := strings.CutPrefix(line, "gzip:"); ok {
			zipped.WriteString(strings.ReplaceAll(rest, `\t`, "\t") + "\n")
		} else {
			plain.WriteString(line + "\n")
		}
	}
	e.body = []byte(plain.String())
	if zipped.Len() > 0 {
		e.body = append(e.body, zip(zipped.String())...)
	}
	e.answer = strings.Join(got[1:], "\n")
	e.answer, e.unzip = strings.CutPrefix(e.answer, "gzip:")
	return e
}

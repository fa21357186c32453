package commandline_test

import (
	"bytes"
	"testing"

	"sheaf/internal/display"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://日本.example.jp/a b": "http://日本.example.jp/a b",
		"\x1b[2J\x1b]0;title\a":    `\x1b[2J\x1b]0;title\a`,
		"a\r\nok\t":                `a\r\nok\t`,
		"\u009b31m":                `\u009b31m`,
		"\x9b31m\xff":              `\x9b31m\xff`,
		"\u202egnp.exe\u2028":      `\u202egnp.exe\u2028`,
		"\x7f\x00\ufffd":           `\x7f\x00` + "\ufffd",
	} {
		if got := display.Harmless(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got, want := display.HarmlessLines("a\tb\n\x1b"), "a\tb\n\\x1b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// However the bytes come, whole characters stay and nothing else passes.
func TestWriter(t *testing.T) {
	t.Parallel()
	const in, want = "日本\t\x1b[m\x9b\n語\n", "日本\t\\x1b[m\\x9b\n語\n"
	for size := 1; size < len(in); size++ {
		var out bytes.Buffer
		w := display.NewHarmlessWriter(&out)
		for at := 0; at < len(in); at += size {
			part := in[at:min(at+size, len(in))]
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if out.String() != want {
			t.Errorf("by %d: %q, want %q", size, out.String(), want)
		}
	}
}

package sortedrun

import (
	"encoding/json"
	"testing"
)

// A LineScanner reads the same values as encoding/json.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{`"a"7`, `"\"a\""7`, `"\\"1`, `"\\\""1`, `""0`, `"\u0041"1`, `"é"1`, `"a"01`, `"a"-1`, `"a"1e3`, `"a"123456789012345678`, `"a"1234567890123456789`, "\"a\x00\"1", `"a`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		scan := LineScanner{Rest: `{"s":` + s}
		var text string
		var number int64
		if !scan.Text(`{"s":`, &text) {
			return
		}
		quoted := s[:len(s)-len(scan.Rest)]
		var want string
		if err := json.Unmarshal([]byte(quoted), &want); err != nil || want != text {
			t.Errorf("%q is %q, want %q, %v", quoted, text, want, err)
		}
		before := scan.Rest
		if !scan.Number("", &number) {
			return
		}
		digits := before[:len(before)-len(scan.Rest)]
		var n int64
		if err := json.Unmarshal([]byte(digits), &n); err != nil || n != number {
			t.Errorf("%q is %d, want %d, %v", digits, number, n, err)
		}
		if scan.Skip(scan.Rest+"x") || !scan.Skip(scan.Rest) || scan.Rest != "" {
			t.Errorf("%q is left", scan.Rest)
		}
	})
}

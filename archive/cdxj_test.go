package archive

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is written must be read the quick way: otherwise nothing is gained, and nobody notices.
func TestScanLineReadsWhatIsWritten(t *testing.T) {
	_, x := smallSegment(t)
	cells := append([]Cell{}, x.Cells...)
	more := cells[0]
	more.Truncated, more.RefersDate, more.Time = "length", time.Unix(9, 9).UTC(), more.Time.Truncate(time.Second)
	for _, c := range append(cells, more) {
		_, text, _ := strings.Cut(string(c.appendLine(nil, 500)), " {")
		if _, ok := scanLine("{" + text); !ok {
			t.Errorf("not read: {%s", text)
		}
	}
}

// Whatever is read the quick way must be what encoding/json reads.
func FuzzScanLine(f *testing.F) {
	_, x := smallSegment(f)
	for i := range x.Cells {
		_, text, _ := strings.Cut(string(x.Cells[i].appendLine(nil, 500)), " {")
		f.Add("{" + text)
	}
	f.Add(`{"url":"a","mime":"b","status":"c","digest":"d","length":"e","offset":"f","truncated":"g","ns":01,"refers":"","cell":[0,1,2,3,4,5,6,7,8]}`)
	f.Add(`{"url":"é","mime":"\u0041","status":"","digest":"","length":"","offset":"","cell":[0,1,2,3,4,5,6,7,999999999999999999]}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanLine(text)
		if !ok {
			return
		}
		var want Line
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v (%v)", text, got, want, err)
		}
	})
}

// BenchmarkParseLine compares the quick way with encoding/json's.
func BenchmarkParseLine(b *testing.B) {
	_, x := smallSegment(b)
	line := string(x.Cells[0].appendLine(nil, 500))
	for name, line := range map[string]string{"written": line, "json": strings.Replace(line, `{"url"`, `{ "url"`, 1)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := parseLine(line, testHost); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package texts

import (
	_ "embed"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sheaf/internal/testkit"
)

//go:embed testdata/language.tsv
var languageMarks string

//go:embed testdata/main.tsv
var mainMarks string

// marks returns the lines of a table of marks, by path.
func marks(table string) map[string][]string {
	of := make(map[string][]string)
	for line := range strings.Lines(table) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); !strings.HasPrefix(line, "#") {
			of[fields[0]] = fields[1:]
		}
	}
	return of
}

// Whether a page is Japanese is found with an F1 of 0.99 at least, in whatever encoding it is. The
// main text is what readers marked, by the pairs of its characters: Readability 0.6.0 reaches 0.908
// on the same pages.
func TestCorpus(t *testing.T) {
	languages, mains := marks(languageMarks), marks(mainMarks)
	right, found, all, looked := 0, 0, 0, 0
	sum, compared := 0.0, 0
	for name, body := range testkit.CorpusFiles(t, func(name string) bool { return languages[name] != nil || mains[name] != nil }) {
		if mark := languages[name]; mark != nil {
			looked++
			is, want := Extract(body, "text/html").Language == "ja", mark[0] == "ja"
			if is != want {
				t.Logf("%s: Japanese: %t", name, is)
			}
			right, found, all = right+both(is, want), found+both(is, true), all+both(want, true)
		}
		if mark := mains[name]; mark != nil {
			compared++
			f1 := likeMark(body, mark)
			if sum += f1; f1 < 0.8 {
				t.Logf("%s: %.2f", name, f1)
			}
		}
	}
	language, main := 2*float64(right)/float64(found+all), sum/float64(compared)
	t.Logf("F1 is %.3f over %d pages for Japanese, %.3f over %d for main text", language, looked, main, compared)
	if looked != len(languages) || language < 0.99 || compared != len(mains) || main < 0.97 {
		t.Errorf("want 0.99 over %d and 0.97 over %d", len(languages), len(mains))
	}
}

func both(a, b bool) int {
	if a && b {
		return 1
	}
	return 0
}

// likeMark returns the F1 of a page's main text and of what a mark says.
func likeMark(body []byte, mark []string) float64 {
	p, _ := read(body, "text/html")
	var all strings.Builder
	for _, b := range p.blocks {
		all.WriteString(b.text)
	}
	text, first, last := squeeze(all.String()), squeeze(mark[1]), squeeze(mark[3])
	return overlap(squeeze(p.mainText()), text[place(text, first, mark[0]):place(text, last, mark[2])+len(last)])
}

// squeeze drops all blanks.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// place returns where the n-th occurrence of words begins.
func place(text, words, n string) int {
	at := -1
	for range must(strconv.Atoi(n)) {
		at += 1 + strings.Index(text[at+1:], words)
	}
	return at
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// overlap returns the F1 of the pairs of characters of two texts.
func overlap(a, b string) float64 {
	pairs := func(s string) map[string]int {
		of, runes := make(map[string]int), []rune(s)
		for i := range len(runes) - 1 {
			of[string(runes[i:i+2])]++
		}
		return of
	}
	x, y := pairs(a), pairs(b)
	shared, n := 0, 0
	for pair, k := range x {
		shared, n = shared+min(k, y[pair]), n+k
	}
	for _, k := range y {
		n += k
	}
	if n == 0 {
		return 1
	}
	return 2 * float64(shared) / float64(n)
}

// BenchmarkCorpus takes the text out of all pages of the corpus.
func BenchmarkCorpus(b *testing.B) {
	var pages [][]byte
	for _, body := range testkit.CorpusFiles(b, func(name string) bool { return !strings.HasPrefix(name, "days/") && strings.Contains(name, ".htm") }) {
		pages = append(pages, body)
	}
	cpu := func() int64 {
		var of syscall.Rusage
		testkit.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &of))
		return (of.Utime.Nano() + of.Stime.Nano()) / 1000
	}
	begun := cpu()
	for b.Loop() {
		for _, body := range pages {
			Extract(body, "text/html")
		}
	}
	b.ReportMetric(float64(cpu()-begun)/float64(b.N*len(pages)), "µs-CPU/page")
}

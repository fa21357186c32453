package main

import (
	"bytes"
	"encoding/xml"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

func TestFigures(t *testing.T) {
	f := make(figures)
	for _, out := range []string{
		"goos: linux\nBenchmarkCrawl/level=6-2 \t 1\t 5e9 ns/op\t 3.5 cpu-s/1000pages\t 40 MB\nPASS\n",
		"BenchmarkCrawl/level=6-2 1 5e9 ns/op 4.5 cpu-s/1000pages\nBenchmarkPeers/wget2-2 1 2.0 cpu-s/1000pages\n",
		"BenchmarkCrawl/level=6-2 1 5e9 ns/op 3.0 cpu-s/1000pages\nBenchmarkPeers/wget2-2 1 1.0 cpu-s/1000pages\n    bench_test.go:1: needs colly\n",
	} {
		f.read(out)
	}
	for want, value := range map[string]func(figures) string{
		"4.50 × (1.75 ×–4.50 ×)":       share(robot+cpuPage, "Peers/wget2 "+cpuPage),
		unknown:                        share(robot+cpuPage, "Peers/colly "+cpuPage),
		"3.5 (3.0–4.5), 2.0 (1.0–2.0)": each("%.1f", robot+cpuPage, "Peers/scrapy "+cpuPage, "Peers/wget2 "+cpuPage),
		"40 megabytes":                 each("%.0f megabytes", robot+"MB"),
	} {
		if got := value(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A curve that grows by more than it may is told, unless a reason is named; its picture is XML.
func TestGrowth(t *testing.T) {
	g := growth{name: "made", what: "made up things", of: "things", sizes: []int{10, 100, 1000}, curves: []curve{
		{"level", "level", "%.0f", 0, ""}, {"linear", "linear", "%.0f", 1, ""}, {"bent & broken", "bent", "%.0f", 0, ""},
		{"explained", "bent", "%.0f", 0, "it is so"}, {"missing", "nowhere", "%.0f", 0, ""},
	}}
	var all []figures
	for i, n := range g.sizes {
		all = append(all, figures{"level": {5}, "linear": {float64(n)}, "bent": {[]float64{5, 5, 10}[i]}})
	}
	var table bytes.Buffer
	if bent := g.table(&table, taken{Figures: all}); !slices.Equal(bent, []string{"made: bent & broken"}) {
		t.Errorf("these are said to bend: %q", bent)
	}
	for _, want := range []string{
		"| things | 10¹ | 10² | 10³ | grows with |", "| level | 5 | 5 | 5 | n^0.00 |", "| linear | 10 | 100 | 1000 | n^1.00 |",
		"| explained | 5 | 5 | 10 | n^0.30: it is so |", "| missing | not measured | not measured | not measured | not measured |",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	for decoder := xml.NewDecoder(bytes.NewReader(g.draw(all))); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the picture: %v", err)
		}
	}
}

// What a web takes follows from the costs, and the limit that comes first stands first.
func TestDemands(t *testing.T) {
	var text bytes.Buffer
	demands(&text, costs{
		page: 1e-3, known: 50, splitByte: 1e-8, kept: 0.5, row: 20e-6, rowBytes: 100, publish: 1e-5, heartbeat: 1e-3,
		plan: 60, planHosts: 1e6, planPower: 1.1, planMemory: 900,
	})
	for _, want := range []string{
		"| robots, by the interval | 3 | 232 |",                               // 10⁸ pages · 20 s / 10⁴ addresses / a day
		"| robots, by their CPU | 1 | 58 |",                                   // 10¹⁰ · 1 ms / 2 cores / a day
		"| building the index, on one core | 0.023 of a day | 2.3 of a day |", // 10¹⁰ · 20 µs / a day
		"|---|---|\n| building the index, on one core | 4e+09 |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &text)
		}
	}
}

// Each run names benchmarks that are there.
func TestRunsAreThere(t *testing.T) {
	root, all := testkit.Root(t), slices.Clone(runs)
	for _, g := range growths {
		all = append(all, run{name: "--grow " + g.name, pkg: g.pkg, bench: g.bench})
	}
	for _, r := range all {
		pattern := regexp.MustCompile(strings.Split(r.bench, "/")[0])
		found := false
		files, err := filepath.Glob(filepath.Join(root, r.pkg, "*_test.go"))
		testkit.Must(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			testkit.Must(t, err)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Benchmark") && pattern.MatchString(strings.TrimPrefix(f.Name.Name, "Benchmark")) {
					found = true
				}
			}
		}
		if !found {
			t.Errorf("run %s: %s has no benchmark %s", r.name, r.pkg, r.bench)
		}
	}
}

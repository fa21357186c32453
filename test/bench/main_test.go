package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

func TestFigures(t *testing.T) {
	f := make(figures)
	for _, out := range []string{
		"goos: linux\nBenchmarkCrawl/level=6-2 \t 1\t 5e9 ns/op\t 3.5 cpu-s/1000pages\t 40 MB\nPASS\n",
		"BenchmarkCrawl/level=6-2 1 5e9 ns/op 4.5 cpu-s/1000pages\nBenchmarkPeers/wget2-2 1 2.0 cpu-s/1000pages\n",
		"BenchmarkCrawl/level=6-2 1 5e9 ns/op 3.0 cpu-s/1000pages\n    bench_test.go:1: needs colly\n",
	} {
		f.read(out)
	}
	for want, value := range map[string]func(figures) string{
		"1.75 ×":       share(robot+cpuPage, "Peers/wget2 "+cpuPage),
		unknown:        share(robot+cpuPage, "Peers/colly "+cpuPage),
		"3.5, 2.0":     each("%.1f", robot+cpuPage, "Peers/scrapy "+cpuPage, "Peers/wget2 "+cpuPage),
		"40 megabytes": each("%.0f megabytes", robot+"MB"),
	} {
		if got := value(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each run names benchmarks that are there.
func TestRunsAreThere(t *testing.T) {
	root := testkit.Root(t)
	for _, r := range runs {
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

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// growth is a benchmark that is run at several sizes.
type growth struct {
	name, what string
	pkg, bench string
	of         string             // what the sizes count, such as "records"
	sizes      []int              // rising, ten times as much each
	env        func(int) []string // the environment that gives the benchmark a size
	curves     []curve
}

// curve is one figure of a growth.
type curve struct {
	what   string
	figure string  // as figures names it
	format string  // of a value
	power  float64 // power of the size with which it may grow: 0 for a cost per item, 1 for the cost of all items
	why    string  // the reason if it grows with a higher power
}

// tolerance is by how much a curve's power between two sizes may exceed the allowed power before
// the curve counts as bent. A cost per item that is half as much again at ten times the size has
// the power 0.18. One round on a machine with neighbours varies by about 0.1.
const tolerance = 0.15

// taken is what a growth's benchmark has reported: a line of data, from which the document is made.
type taken struct {
	Day, Machine string
	Figures      []figures // at each size
}

// grow measures the named growths, or all if names is empty. If write is set, it writes the
// document with the new figures and with the earlier figures of the other growths. Otherwise it
// prints the tables. It fails if a curve bends upwards for no named reason.
func grow(names []string, write bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(growths, func(g growth) bool { return g.name == name }) {
			return fmt.Errorf("there is no run %q with --grow; see --help", name)
		}
	}
	before, err := os.ReadFile(grownData)
	if err != nil {
		return err
	}
	measured := make(map[string]taken)
	if err := json.Unmarshal(before, &measured); err != nil {
		return fmt.Errorf("%s: %w", grownData, err)
	}
	var text bytes.Buffer
	var bent []string
	for _, g := range growths {
		if len(names) == 0 || slices.Contains(names, g.name) {
			all, err := g.measure()
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			measured[g.name] = taken{time.Now().Format("2 January 2006"), machine(), all}
			bent = append(bent, g.table(&text, measured[g.name])...)
		}
	}
	if write {
		err = writeGrown(measured)
	} else {
		_, err = text.WriteTo(os.Stdout)
	}
	if err == nil && len(bent) > 0 {
		err = fmt.Errorf("these bend upwards, and no reason is named: %s", strings.Join(bent, "; "))
	}
	return err
}

// writeGrown writes the document, its pictures and the data.
func writeGrown(measured map[string]taken) error {
	data, err := json.MarshalIndent(measured, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(grownData, append(data, '\n'), 0o644); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, g := range growths {
		t, ok := measured[g.name]
		if !ok {
			continue
		}
		g.table(&text, t)
		picture := "pictures/grow-" + g.name + ".svg"
		if err := os.WriteFile("docs/"+picture, g.draw(t.Figures), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n![How the costs of %s grow](%s)\n", g.what, picture)
	}
	demands(&text, costsOf(measured))
	return put(grown, text.String())
}

// measure runs the benchmark at each size.
func (g *growth) measure() ([]figures, error) {
	var all []figures
	for _, n := range g.sizes {
		fmt.Fprintf(os.Stderr, "%s, %d %s\n", g.name, n, g.of)
		r := run{name: g.name, pkg: g.pkg, bench: g.bench, times: "1x", env: g.env(n)}
		f, err := r.measure(1)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// table writes the values at all sizes, and returns the curves that bend upwards for no named
// reason.
func (g *growth) table(to *bytes.Buffer, t taken) (bent []string) {
	fmt.Fprintf(to, "\n### %s\n\n%s, %s, by `go run ./test/bench --grow %s`.\n\n| %s |",
		strings.ToUpper(g.what[:1])+g.what[1:], t.Day, t.Machine, g.name, g.of)
	all := t.Figures
	for _, n := range g.sizes {
		fmt.Fprintf(to, " %s |", powerOfTen(n))
	}
	fmt.Fprintf(to, " grows with |\n|---|%s---|\n", strings.Repeat("---|", len(g.sizes)))
	for _, c := range g.curves {
		fmt.Fprintf(to, "| %s |", c.what)
		for _, f := range all {
			if v, ok := f.median(c.figure); ok {
				fmt.Fprintf(to, " "+c.format+" |", v)
			} else {
				fmt.Fprintf(to, " %s |", unknown)
			}
		}
		power, known := c.lastPower(g.sizes, all)
		grows := unknown
		if known {
			grows = fmt.Sprintf("n^%.2f", power)
		}
		if known && power > c.power+tolerance {
			if c.why == "" {
				bent = append(bent, g.name+": "+c.what)
				grows += ", **bends upwards**"
			} else {
				grows += ": " + c.why
			}
		}
		fmt.Fprintf(to, " %s |\n", grows)
	}
	return bent
}

// lastPower returns the power of the size with which the curve grows between the two largest sizes,
// or false if one of their values is not known or not positive.
func (c *curve) lastPower(sizes []int, all []figures) (float64, bool) {
	last := len(sizes) - 1
	a, known := all[last-1].median(c.figure)
	b, also := all[last].median(c.figure)
	if !known || !also || a <= 0 || b <= 0 {
		return 0, false
	}
	return math.Log(b/a) / math.Log(float64(sizes[last])/float64(sizes[last-1])), true
}

// powerOfTen writes a size such as 20000 as 2·10⁴, and one such as 365 as it is.
func powerOfTen(n int) string {
	if n%10 > 0 && n != 1 {
		return fmt.Sprint(n)
	}
	power := 0
	for ; n >= 10 && n%10 == 0; n /= 10 {
		power++
	}
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	text := "10"
	if n != 1 {
		text = fmt.Sprintf("%d·10", n)
	}
	for _, d := range fmt.Sprint(power) {
		text += string(digits[d-'0'])
	}
	return text
}

// The drawing's size and margins, in pixels.
const (
	width, height           = 720, 300
	left, right, top, below = 50, 300, 20, 40
)

// colours are those of Okabe and Ito (2008), which the colour-blind tell apart, without the yellow.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#888888"}

// draw draws each curve as a multiple of its value at the smallest size. Both axes are logarithmic:
// a constant cost per item is a level line, and a cost of all items that grows with the size is as
// steep as the dotted line.
func (g *growth) draw(all []figures) []byte {
	least, most := 1.0, float64(g.sizes[len(g.sizes)-1])/float64(g.sizes[0])
	lines := make([][]float64, len(g.curves))
	for i, c := range g.curves {
		first, _ := all[0].median(c.figure)
		for _, f := range all {
			v, ok := f.median(c.figure)
			if !ok || first <= 0 || v <= 0 {
				lines[i] = nil
				break
			}
			lines[i] = append(lines[i], v/first)
			least, most = min(least, v/first), max(most, v/first)
		}
	}
	x := func(n int) float64 {
		return left + (width-left-right)*math.Log(float64(n)/float64(g.sizes[0]))/math.Log(float64(g.sizes[len(g.sizes)-1])/float64(g.sizes[0]))
	}
	y := func(v float64) float64 {
		return height - below - (height-top-below)*(math.Log(v)-math.Log(least))/(math.Log(most)-math.Log(least))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#777">`+"\n", width, height)
	for power := math.Ceil(math.Log10(least)); power <= math.Log10(most)+0.001; power++ {
		at := y(math.Pow(10, power))
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#7774"/><text x="%d" y="%.1f" text-anchor="end">%g ×</text>`+"\n",
			left, at, width-right, left-6, at+4, math.Pow(10, power))
	}
	for _, n := range g.sizes {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#7774"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x(n), top, height-below, x(n), height-below+16, powerOfTen(n))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+(width-left-right)/2, height-6, g.of)
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#777" stroke-dasharray="2 4"/>`+"\n", x(first), y(1), x(last), y(float64(last)/float64(first)))
	for i, c := range g.curves {
		colour := colours[i%len(colours)]
		for k, v := range lines[i] {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(g.sizes[k]), y(v), colour)
			if k > 0 {
				fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="2"/>`, x(g.sizes[k-1]), y(lines[i][k-1]), x(g.sizes[k]), y(v), colour)
			}
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", width-right+14, top+10+18*i, colour, escape(c.what))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", "`", "").Replace(s)
}

// by returns a growth's env. For a size, it sets each variable to the size times the variable's
// number.
func by(each map[string]float64) func(int) []string {
	return func(n int) (env []string) {
		for name, share := range each {
			env = append(env, fmt.Sprintf("%s=%.0f", name, share*float64(n)))
		}
		return env
	}
}

const ms = "%.2f ms"

// cold is the reason why a manager's reads cost more than ten times as much at ten times the size.
const cold = "the database is larger than its connections' caches of 16 MiB"

// levels is the reason why merging and reading a catalog cost a little more with more editions.
const levels = "a row is merged once, and read once more, for each level of runs; eight runs of one make one of the next"

var growths = []growth{
	{
		"index", "the index of URLs", "./archive/urlindex", "Index$", "records, of 30 days", []int{100_000, 1_000_000, 10_000_000},
		by(map[string]float64{"SHEAF_BENCH_RECORDS": 1}),
		[]curve{
			{"to build: CPU a record", "Index build-cpu-µs/row", "%.1f µs", 0, ""},
			{"to merge: CPU a record", "Index merge-cpu-µs/row", "%.1f µs", 0, ""},
			{"stored for each record", "Index cdx-B/row", "%.1f B", 0, ""},
			{"one URL's 30 records, nothing in memory: p99", "Index cold-p99-ms", ms, 0, ""},
			{"the same: CPU", "Index cold-cpu-ms/look-up", ms, 0, ""},
			{"the same, in memory: CPU", "Index warm-cpu-ms/look-up", ms, 0, ""},
		},
	},
	{
		"catalog", "the catalog, of 30 editions in each of which every host changed", "./archive/catalog", "CatalogAtSize", "hosts",
		[]int{1_000, 10_000, 100_000},
		func(n int) []string {
			return []string{fmt.Sprint("SHEAF_BENCH_HOSTS=", n), "SHEAF_BENCH_EDITIONS=30", "SHEAF_BENCH_LOOKUPS=10000"}
		},
		[]curve{
			{"to publish all 30", "CatalogAtSize publish-s", "%.2f s", 1, ""},
			{"to merge them", "CatalogAtSize merge-s", "%.2f s", 1, ""},
			{"to start", "CatalogAtSize start-s", "%.4f s", 1, ""},
			{"memory after the start", "CatalogAtSize start-rss-MiB", "%.0f MiB", 1, ""},
			{"to look a host up, nothing in memory: CPU", "CatalogAtSize lookup-cold-p50-cpu-ms", ms, 0, ""},
			{"the same, in memory", "CatalogAtSize lookup-p50-cpu-ms", "%.3f ms", 0, ""},
			{"to publish a further 1,000 hosts", "CatalogAtSize publish-1000-p50-ms", "%.0f ms", 0, ""},
		},
	},
	{
		"year", "the catalog, of 10,000 hosts that changed in every edition", "./archive/catalog", "CatalogAtSize", "editions",
		[]int{4, 36, 365},
		func(n int) []string {
			return []string{"SHEAF_BENCH_HOSTS=10000", fmt.Sprint("SHEAF_BENCH_EDITIONS=", n), "SHEAF_BENCH_LOOKUPS=10000"}
		},
		[]curve{
			{"to publish all", "CatalogAtSize publish-s", "%.2f s", 1, ""},
			{"to merge them", "CatalogAtSize merge-s", "%.2f s", 1, levels},
			{"to start", "CatalogAtSize start-s", "%.4f s", 1, ""},
			{"memory after the start", "CatalogAtSize start-rss-MiB", "%.0f MiB", 1, ""},
			{"to look a host up with all its editions, nothing in memory: CPU", "CatalogAtSize lookup-cold-p50-cpu-ms", ms, 1, ""},
			{"the same, in memory", "CatalogAtSize lookup-p50-cpu-ms", "%.3f ms", 1, ""},
			{"100 entries of the directory of jp: CPU", "CatalogAtSize page100-jp-p50-cpu-ms", ms, 0, levels},
			{"to publish a further 1,000 hosts", "CatalogAtSize publish-1000-p50-ms", "%.0f ms", 0, ""},
		},
	},
	{
		"manager", "the manager, with a robot for each 1,000 hosts", "./manager", "AtSize", "hosts", []int{10_000, 100_000, 1_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1, "SHEAF_BENCH_ROBOTS": 0.001}),
		[]curve{
			{"the plan of the day", "AtSize s/plan", "%.2f s", 1, cold},
			{"the same: memory", "AtSize MB-peak/plan", "%.0f MB", 1, ""},
			{"a robot's list of 1,000 hosts, 4 at once: p50", "AtSize ms-p50/list-4-clients", ms, 0, cold},
			{"a heartbeat with 1,000 hosts", "AtSize s/heartbeat", "%.5f s", 0, cold},
			{"`sheaf robot ls`", "AtSize s/robot-ls", "%.3f s", 1, ""},
			{"a host is found", "AtSize s/one-found", "%.4f s", 0, cold},
			{"to look a host up", "AtSize µs/look-up-of-host", "%.0f µs", 0, cold},
		},
	},
	{
		"frontier", "a robot's frontier", "./robotd/frontier", "Frontier$", "known URLs, on 1,000 hosts", []int{100_000, 1_000_000, 10_000_000},
		func(n int) []string { return []string{fmt.Sprint("SHEAF_BENCH_URLS=", n), "SHEAF_BENCH_HOSTS=1000"} },
		[]curve{
			{"to add one", "Frontier ns/push", "%.0f ns", 0, ""},
			{"to find that it is known", "Frontier ns/known", "%.0f ns", 0, ""},
			{"to take the next", "Frontier ns/pop", "%.0f ns", 0, ""},
			{"memory of each", "Frontier B-RAM/URL", "%.1f B", 0, ""},
			{"disk of each", "Frontier B-disk/URL", "%.0f B", 0, ""},
			{"to start", "Frontier s/start", "%.2f s", 1, ""},
		},
	},
	{
		"split", "splitting a batch, all verified", "./ingest", "Split$", "bytes before compression", []int{10_000_000, 100_000_000, 1_000_000_000},
		by(map[string]float64{"SHEAF_BENCH_BYTES": 1}),
		[]curve{
			{"all of it", "Split s-split", "%.2f s", 1, ""},
			{"memory", "Split MB-peak-RSS", "%.0f MB", 0, ""},
			{"stored bytes", "Split MB-batch", "%.1f MB", 1, ""},
		},
	},
	{
		"tables", "a table of records in Parquet", "./cmd/sheaf/service", "TableAtSize", "hosts of 10 records", []int{10_000, 100_000, 1_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"CPU a record", "TableAtSize cpu-µs/record", "%.1f µs", 0, ""},
			{"bytes a record", "TableAtSize B/record", "%.1f B", 0, ""},
		},
	},
	{
		"volumes", "a day's volumes of a domain", "./serve", "VolumesAtSize", "hosts", []int{20_000, 200_000, 2_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"to list them for the first time", "VolumesAtSize s/list", "%.2f s", 1, ""},
			{"to open one, nothing in memory", "VolumesAtSize cold-s/open", "%.3f s", 1, ""},
			{"to open one", "VolumesAtSize s/open", "%.4f s", 0, ""},
		},
	},
	{
		"days", "what a day changed, of hosts with ten pages of 1 kB, of which three changed", "./serve", "DayAtSize", "hosts", []int{100, 1_000, 10_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"from the publication to both lists", "DayAtSize s/changes", "%.2f s", 1, ""},
			{"`changes.jsonl.gz`: bytes a line", "DayAtSize B/line", "%.1f B", 0, ""},
			{"`changes.parquet`: bytes a row", "DayAtSize B/row", "%.1f B", 0, ""},
			{"the day's tar: bytes a changed page", "DayAtSize B/changed", "%.1f B", 0, ""},
		},
	},
	{
		"crawl", "a crawl of 100 hosts without an interval", "./robotd", "Crawl/level=6", "pages", []int{100, 1_000, 10_000},
		func(n int) []string { return []string{fmt.Sprint("SHEAF_BENCH_PAGES=", n/100)} },
		[]curve{
			{"CPU of 1,000 pages", "Crawl/level=6 cpu-s/1000pages", "%.3f s", 0, ""},
			{"pages a second", "Crawl/level=6 pages/s", "%.0f", 1, ""},
		},
	},
}

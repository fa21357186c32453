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

package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Assumptions about the web and the machines. The document states them beside the results.
const (
	dayLong        = 86_400.0 // seconds
	interval       = 20.0     // seconds between two visits of an address, the papers' and ours
	atOnce         = 10_000.0 // hosts that a robot visits at once, as in BenchmarkWidth
	pageBytes      = 40e3     // of a page's answer, decoded
	onTheLine      = 0.4      // share of pageBytes on the line, since servers and the robot compress
	changedShare   = 0.3      // share of the pages that differ from the last visit and are stored
	lineBits       = 100e6    // bits a second of a robot's line, a third of which may be used
	lineShare      = 1.0 / 3
	robotCores     = 2.0
	nodeCores      = 8.0
	heartbeatEvery = 60.0 // seconds, of a robot at work
	gigabyteMonth  = 0.02 // of money for a stored GB a month
	coreHour       = 0.04 // of money
)

// costs has the cost of a unit of each kind of work, at the largest size measured.
type costs struct {
	page       float64 // seconds of a robot's CPU
	known      float64 // bytes of a robot's disk for a known URL
	splitByte  float64 // seconds of this machine for a byte before compression
	kept       float64 // stored bytes for a byte before compression
	row        float64 // seconds of CPU to put a record into the index, and merge it twice
	rowBytes   float64
	publish    float64 // seconds to publish a host of an edition in the catalog, merges included
	heartbeat  float64 // seconds
	plan       float64 // seconds for planHosts
	planHosts  float64
	planPower  float64
	planMemory float64 // bytes a host
}

// costsOf returns the costs by the measured figures. It returns NaN for a cost that was not
// measured.
func costsOf(measured map[string]taken) (c costs) {
	last := func(growth, figure string) float64 {
		all := measured[growth].Figures
		if len(all) == 0 {
			return math.NaN()
		}
		v, ok := all[len(all)-1].median(figure)
		if !ok {
			return math.NaN()
		}
		return v
	}
	largest := func(name string) float64 {
		g := growths[slices.IndexFunc(growths, func(g growth) bool { return g.name == name })]
		return float64(g.sizes[len(g.sizes)-1])
	}
	c.page = last("crawl", "Crawl/level=6 cpu-s/1000pages") / 1000
	c.known = last("frontier", "Frontier B-disk/URL")
	c.splitByte = last("split", "Split s-split") / largest("split")
	c.kept = last("split", "Split MB-batch") * 1e6 / largest("split")
	c.row = (last("index", "Index build-cpu-µs/row") + 2*last("index", "Index merge-cpu-µs/row")) / 1e6
	c.rowBytes = last("index", "Index cdx-B/row") + last("index", "Index idx-B/row")
	c.publish = (last("catalog", "CatalogAtSize publish-s") + last("catalog", "CatalogAtSize merge-s")) / (30 * largest("catalog"))
	c.heartbeat = last("manager", "AtSize s/heartbeat")
	c.planHosts, c.plan = largest("manager"), last("manager", "AtSize s/plan")
	plan := curve{figure: "AtSize s/plan"}
	if all := measured["manager"].Figures; len(all) > 1 {
		c.planPower, _ = plan.lastPower(growths[slices.IndexFunc(growths, func(g growth) bool { return g.name == "manager" })].sizes, all)
	}
	c.planMemory = last("manager", "AtSize MB-peak/plan") * 1e6 / c.planHosts
	return c
}

// demand is a web that is collected every day.
type demand struct {
	name         string
	hosts, pages float64
}

var demanded = []demand{{"jp", 2e6, 1e8}, {"the web", 2e8, 1e10}}

// need is one line of the table of what a demand takes.
type need struct {
	what   string
	format string
	of     func(c *costs, d *demand) float64
	single bool // one process must do it; the value is a share of the day
}

// fleets are the numbers of robots that a demand takes, one for each possible bottleneck.
var fleets = []need{
	{"robots, by the interval", "%.0f", func(_ *costs, d *demand) float64 { return math.Ceil(d.pages * interval / atOnce / dayLong) }, false},
	{"robots, by their lines", "%.0f", func(_ *costs, d *demand) float64 {
		return math.Ceil(d.pages * pageBytes * onTheLine * 8 / (lineBits * lineShare) / dayLong)
	}, false},
	{"robots, by their CPU", "%.0f", func(c *costs, d *demand) float64 { return math.Ceil(d.pages * c.page / robotCores / dayLong) }, false},
}

// needs are what a demand takes besides robots.
var needs = []need{
	{"disk of all frontiers, with as many known URLs as pages", "%.2g TB", func(c *costs, d *demand) float64 { return d.pages * c.known / 1e12 }, false},
	{"lines into the service, pages that changed", "%.2g Gbit/s", func(c *costs, d *demand) float64 {
		return d.pages * changedShare * pageBytes * c.kept * 8 / dayLong / 1e9
	}, false},
	{"ingest nodes, by splitting (this machine counted as two cores of one)", "%.0f", func(c *costs, d *demand) float64 {
		return math.Ceil(d.pages * changedShare * pageBytes * c.splitByte / dayLong / (nodeCores / 2))
	}, false},
	{"stored a day", "%.1f TB", func(c *costs, d *demand) float64 { return d.pages * changedShare * pageBytes * c.kept / 1e12 }, false},
	{"index of URLs a day, unchanged pages counted", "%.2g TB", func(c *costs, d *demand) float64 { return d.pages * c.rowBytes / 1e12 }, false},
	{"money a month for a year's pages, stored once", "%.0f", func(c *costs, d *demand) float64 {
		return 365 * d.pages * (changedShare*pageBytes*c.kept + c.rowBytes) / 1e9 * gigabyteMonth
	}, false},
	{"money a month for the cores of ingest and index", "%.0f", func(c *costs, d *demand) float64 {
		return d.pages * (changedShare*pageBytes*c.splitByte*2 + c.row) / dayLong * 730 * coreHour
	}, false},
	{"publishing in the catalog", "%.2g of a day", func(c *costs, d *demand) float64 { return d.hosts * c.publish / dayLong }, true},
	{"building the index, on one core", "%.2g of a day", func(c *costs, d *demand) float64 { return d.pages * c.row / dayLong }, true},
	{"the plan of the day", "%.2g of a day", func(c *costs, d *demand) float64 {
		return c.plan * math.Pow(d.hosts/c.planHosts, max(c.planPower, 1)) / dayLong
	}, true},
	{"heartbeats, on one core", "%.2g of a day", func(c *costs, d *demand) float64 { return robots(c, d) * c.heartbeat / heartbeatEvery }, true},
	{"memory of the plan", "%.1f GB", func(c *costs, d *demand) float64 { return d.hosts * c.planMemory / 1e9 }, false},
}

// robots returns how many robots a demand takes, by the worst bottleneck.
func robots(c *costs, d *demand) (most float64) {
	for _, n := range fleets {
		most = max(most, n.of(c, d))
	}
	return most
}

// demands writes what each demand takes at the costs c, and the limits of single processes, the
// lowest first.
func demands(to *bytes.Buffer, c costs) {
	fmt.Fprintf(to, "\n### What it takes to collect all of it every day\n\n| |")
	for _, d := range demanded {
		fmt.Fprintf(to, " %s: %s hosts, %s pages |", d.name, powerOfTen(int(d.hosts)), powerOfTen(int(d.pages)))
	}
	fmt.Fprintf(to, "\n|---|%s\n", "---|---|")
	for _, n := range slices.Concat(fleets, needs) {
		fmt.Fprintf(to, "| %s |", n.what)
		for _, d := range demanded {
			if v := n.of(&c, &d); math.IsNaN(v) {
				fmt.Fprintf(to, " %s |", unknown)
			} else {
				fmt.Fprintf(to, " "+n.format+" |", v)
			}
		}
		to.WriteByte('\n')
	}
	to.WriteString("\nWhat one process does, sorted by the web at which it fills the day:\n\n| | pages a day |\n|---|---|\n")
	type limit struct {
		what  string
		pages float64
	}
	var limits []limit
	jp := demanded[0]
	for _, n := range needs {
		if v := n.of(&c, &jp); n.single && v > 0 {
			limits = append(limits, limit{n.what, jp.pages / v})
		}
	}
	slices.SortFunc(limits, func(a, b limit) int { return int(math.Copysign(1, a.pages-b.pages)) })
	for _, l := range limits {
		fmt.Fprintf(to, "| %s | %.1g |\n", l.what, l.pages)
	}
}

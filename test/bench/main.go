// Bench compares Sheaf with other programs that do the same work, on this machine, and prints a
// table of medians, each with the least and the most:
//
//	go run ./test/bench                    # everything, ten minutes a round
//	go run ./test/bench crawl http         # some runs
//	go run ./test/bench --rounds 1 ftp
//	go run ./test/bench --install          # installs the other programs first (Debian, root)
//	go run ./test/bench --write            # and puts the table into docs/performance.md
//	go run ./test/bench --grow             # how costs grow with the size, and what jp and the web need
//	go run ./test/bench --grow --write     # and puts that into docs/scale.md and .json
//
// Each run is a benchmark of the project, which works in turn with the other program. If that
// program is not installed, its figures are "not measured", and the output says so. Nothing leaves
// the machine but what --install fetches. Keep the machine quiet meanwhile.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The documents, and the marks between which they have the measured figures.
const (
	compared  = "docs/performance.md"
	grown     = "docs/scale.md"
	grownData = "docs/scale.json"
	markBegin = "<!-- what go run ./test/bench --write puts here -->\n"
	markEnd   = "<!-- end -->\n"
)

// packages are the Debian packages of the other programs.
var packages = []string{"wget2", "wget", "python3-scrapy", "vsftpd", "lftp", "nginx"}

func main() {
	rounds := flag.Int("rounds", 5, "how often each run is repeated; the table has medians, with the least and the most")
	install := flag.Bool("install", false, "install the other programs by apt-get")
	write := flag.Bool("write", false, "put the table into "+compared+", or with --grow into "+grown)
	growing := flag.Bool("grow", false, "measure how costs grow with the size, one round")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/bench [--rounds N] [--install] [--write] [RUN ...]\n"+
			"       go run ./test/bench --grow [--write] [RUN ...]\nThe runs:")
		for _, r := range runs {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-10s %s\n", r.name, r.what)
		}
		fmt.Fprintln(flag.CommandLine.Output(), "The runs with --grow:")
		for _, g := range growths {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-10s %s\n", g.name, g.what)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	do := func() error { return bench(flag.Args(), *rounds, *install, *write) }
	if *growing {
		do = func() error { return grow(flag.Args(), *write) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(names []string, rounds int, install, write bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(runs, func(r run) bool { return r.name == name }) {
			return fmt.Errorf("there is no run %q; see --help", name)
		}
	}
	if write && len(names) > 0 {
		return fmt.Errorf("--write wants all runs, not only %s", strings.Join(names, ", "))
	}
	if install {
		apt := exec.Command("apt-get", append([]string{"install", "-y", "-qq"}, packages...)...)
		apt.Stdout, apt.Stderr = os.Stderr, os.Stderr
		if err := apt.Run(); err != nil {
			return fmt.Errorf("apt-get: %w", err)
		}
	}
	var table bytes.Buffer
	count := "One round"
	if rounds > 1 {
		count = fmt.Sprintf("Medians of %d rounds, with the least and the most", rounds)
	}
	fmt.Fprintf(&table, "%s, %s. %s.\n\n", time.Now().Format("2 January 2006"), machine(), count)
	table.WriteString("| work | beside | measured | aim |\n|---|---|---|---|\n")
	for _, r := range runs {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		measured, err := r.measure(rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for _, l := range r.lines {
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", l.work, l.peer, l.value(measured), l.aim)
		}
	}
	if !write {
		_, err := table.WriteTo(os.Stdout)
		return err
	}
	return put(compared, table.String())
}

// put replaces the figures between a document's marks by the table.
func put(document, table string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return fmt.Errorf("%s has not the two marks between which the figures belong", document)
	}
	return os.WriteFile(document, []byte(before+markBegin+table+markEnd+after), 0o644)
}

// machine returns this machine's processor, its number of cores and the version of Go.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.Version())
}

// figures has what benchmarks have reported: for each "Name/sub unit" one value of each round.
type figures map[string][]float64

// median returns the median of a figure, and whether the figure was measured.
func (f figures) median(name string) (float64, bool) {
	all := slices.Sorted(slices.Values(f[name]))
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)/2], true
}

// spread returns a figure as text: its median and, of several rounds, its least and its greatest
// value.
func spread(format string, of []float64) string {
	all := slices.Sorted(slices.Values(of))
	text := fmt.Sprintf(format, all[len(all)/2])
	if len(all) > 1 {
		text += fmt.Sprintf(" ("+format+"–"+format+")", all[0], all[len(all)-1])
	}
	return text
}

// measure runs the benchmark once in each round, and returns the figures that it reports.
func (r *run) measure(rounds int) (figures, error) {
	all := make(figures)
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%s, round %d of %d\n", r.name, round+1, rounds)
		test := exec.Command("go", "test", r.pkg, "-run", "^$", "-bench", r.bench, "-benchtime", r.times, "-timeout", "2h", "-v")
		test.Env = append(os.Environ(), r.env...)
		out, err := test.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(test.Args, " "), err, out)
		}
		all.read(string(out))
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "needs ") && round == 0 {
				fmt.Fprint(os.Stderr, line)
			}
		}
	}
	return all, nil
}

// read adds the figures in the output of a benchmark: lines of a name, a number of operations, and
// pairs of a value and its unit.
func (f figures) read(out string) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 { // the number of processors
			name = name[:at]
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				key := name + " " + fields[i+1]
				f[key] = append(f[key], value)
			}
		}
	}
}

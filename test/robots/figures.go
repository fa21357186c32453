package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// figures has the times that requests took, by kind. Many goroutines may use note at once.
type figures struct {
	mu      sync.Mutex
	took    map[string][]time.Duration
	failed  map[string]int
	example error // the first failure; nil: there was none
}

func newFigures() *figures {
	return &figures{took: map[string][]time.Duration{}, failed: map[string]int{}}
}

func (f *figures) note(kind string, took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took[kind] = append(f.took[kind], took)
	if err != nil {
		f.failed[kind]++
		if f.example == nil {
			f.example = err
		}
	}
}

func (f *figures) failures() (n int) {
	for _, k := range f.failed {
		n += k
	}
	return n
}

// write writes a table of rates and latencies.
func (f *figures) write(out io.Writer, lasted time.Duration) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "request\tnumber\ta second\tp50\tp99\tmost\tfailed\t")
	for _, kind := range slices.Sorted(maps.Keys(f.took)) {
		took := f.took[kind]
		slices.Sort(took)
		part := func(n int) time.Duration { return took[(len(took)-1)*n/100].Round(100 * time.Microsecond) }
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%v\t%v\t%v\t%d\t\n", kind, len(took), float64(len(took))/lasted.Seconds(), part(50), part(99), part(100), f.failed[kind])
	}
	w.Flush()
}

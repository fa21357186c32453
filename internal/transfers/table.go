package transfers

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// WriteTable prints totals as the paper's table 10 does: name, bytes, seconds and
// bytes per second; then in which way and in how many transfers.
func WriteTable(w io.Writer, totals []Total) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "name\tbytes\tseconds\tbytes/s\tway\ttransfers\t")
	for _, t := range totals {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s %s\t%d\t\n", t.Who, t.Bytes, seconds(t.Took), rate(t.Rate()), t.Protocol, t.Direction, t.Count)
	}
	return tw.Flush()
}

// seconds writes tenths, and what took less than a second to the millisecond.
func seconds(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
}

// rate writes bytes per second in thousands, as the paper does ("404k").
func rate(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r < 1e3:
		return strconv.FormatFloat(r, 'f', 0, 64)
	case r < 1e6:
		return strconv.FormatFloat(r/1e3, 'f', 0, 64) + "k"
	default:
		return strconv.FormatFloat(r/1e6, 'f', 1, 64) + "M"
	}
}

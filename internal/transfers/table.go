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

// WriteRunning prints transfers that are under way, one a line.
func WriteRunning(w io.Writer, list []TransferLine) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "since\tname\tbytes\tseconds\tbytes/s\tway\tfrom\tfile\tcounted by")
	for _, t := range list {
		by, per := "service", 0.0
		if t.Acknowledged {
			by = "client"
		}
		if t.Seconds > 0 {
			per = float64(t.Bytes) / t.Seconds
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%s\t%s %s\t%s\t%s\t%s\n", t.At.Local().Format(time.DateTime), t.Who, t.Bytes, t.Seconds, rate(per),
			t.Protocol, t.Direction, t.Remote, t.Name, by)
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

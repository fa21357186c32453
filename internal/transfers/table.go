package transfers

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// WriteTable prints totals like table 10 of paper 001: name, bytes, seconds and bytes per second;
// then the protocol, the direction and the number of transfers.
func WriteTable(w io.Writer, totals []TotalLine) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "name\tbytes\tseconds\tbytes/s\tway\ttransfers\t")
	for _, t := range totals {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s %s\t%d\t\n", t.Who, t.Bytes, seconds(t.Seconds), rate(t.Rate), t.Protocol, t.Direction, t.Count)
	}
	return tw.Flush()
}

// WriteRunning prints transfers that are under way, one in each line.
func WriteRunning(w io.Writer, list []TransferLine) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "since\tname\tbytes\tseconds\tbytes/s\tway\tfrom\tfile\tcounted by")
	for _, t := range list {
		by := "service"
		if t.Acknowledged {
			by = "client"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%s\t%s %s\t%s\t%s\t%s\n", t.At.Local().Format(time.DateTime), t.Who, t.Bytes, t.Seconds, rate(rateOf(t.Bytes, t.Seconds)),
			t.Protocol, t.Direction, t.Remote, t.Name, by)
	}
	return tw.Flush()
}

// seconds formats seconds with one digit after the point, or three if there is less than one
// second.
func seconds(s float64) string {
	if s < 1 {
		return strconv.FormatFloat(s, 'f', 3, 64)
	}
	return strconv.FormatFloat(s, 'f', 1, 64)
}

// rate formats bytes per second in thousands, like the paper ("404k").
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

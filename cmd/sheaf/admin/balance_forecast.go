package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/manager"
	"sheaf/manager/balance"
	"sheaf/manager/levelling"
)

func balanceForecast() *cobra.Command {
	return asking(&cobra.Command{
		Use:   "forecast --hosts N --pages M",
		Short: "Say how many robots are needed to collect so many pages every night, and what limits them",
		Long: `Say how many robots are needed to collect M pages of N hosts every night, and what limits them.

The hosts are assumed to be like the hosts that this service's robots have measured, with more or fewer pages,
and the robots like those that take part. Before anything was measured, the answer rests on assumptions. It
names them.`,
	}, manager.ShowForecast, new(manager.ForecastQuery), "hosts pages window", showForecast)
}

func showForecast(w io.Writer, f levelling.Forecast) {
	fmt.Fprintf(w, "Robots needed for %d pages of %d hosts in a night of %s: %d.\n", f.Pages, f.Hosts, span(f.Window), f.Robots)
	why := map[balance.Bind]string{
		balance.ByWidth: "how many transfers it makes at once",
		balance.ByLine:  "its line",
	}[f.Binds]
	fmt.Fprintf(w, "A robot collects %.0f pages a night, bound by %s.\n\n", f.Nightly, why)
	if f.Measured {
		fmt.Fprintf(w, "Measured, of %d hosts and the median robot:\n", f.Sample)
	} else {
		fmt.Fprintln(w, "Nothing was measured yet. These are assumptions:")
	}
	fmt.Fprintf(w, "  a page        %.1f KB, %s of transfer\n", f.PageKB, span(f.PageMS))
	fmt.Fprintf(w, "  a robot       %.0f transfers at once", f.Width)
	if f.Line > 0 {
		fmt.Fprintf(w, ", %.0f KB/s", f.Line/1024)
	} else {
		fmt.Fprint(w, "; no line is known to bind")
	}
	fmt.Fprintf(w, "\n  an address    %s between two visits\n", span(f.Interval))
	if !f.Measured {
		fmt.Fprintln(w, "  a host        has as many pages as all others")
	}
	fmt.Fprintf(w, "\nThe visits to the longest address take %s.\n", span(f.Longest))
	if f.LongAddresses == 0 {
		fmt.Fprintln(w, "No address takes longer than a night.")
		return
	}
	fmt.Fprintf(w, "%.3g %% of the addresses take longer than a night. Because of them, %.3g %% of the pages are not collected in one night,\n"+
		"however many robots there are: robots that share a host share its interval, too.\n", 100*f.LongAddresses, 100*f.LatePages)
	if f.Fitting > 0 {
		fmt.Fprintf(w, "The longest would end with the night at an interval of %s.\n", span(f.Fitting))
	} else {
		fmt.Fprintln(w, "The longest has more to transfer, one page after the other, than fits into a night at any interval.")
	}
}

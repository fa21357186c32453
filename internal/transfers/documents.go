package transfers

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"sheaf/internal/display"
)

// Document is the answer of GET /v1/transfers: the totals of all selected transfers, one page of
// these transfers, newest first, and the transfers under way. The next page is at ?before=<Next>.
type Document struct {
	Totals    []TotalLine    `json:"totals"`
	Transfers []TransferLine `json:"transfers"`
	Next      int64          `json:"next,omitempty"`

	// Running are the transfers under way in the process that answers, longest first.
	Running []TransferLine `json:"running"`
}

// TransferLine is a Transfer in JSON.
type TransferLine struct {
	ID        int64     `json:"id,omitempty"`
	At        time.Time `json:"at"`
	Direction string    `json:"direction"`
	Protocol  string    `json:"protocol"`
	Who       string    `json:"who"`
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`
	Outcome   string    `json:"outcome,omitempty"` // empty: under way
	Remote    string    `json:"remote"`

	// Acknowledged and Count are as in Transfer.
	Acknowledged bool  `json:"acknowledged"`
	Count        int64 `json:"count"`
}

func linesOf(list []Transfer) []TransferLine {
	lines := make([]TransferLine, 0, len(list))
	for _, t := range list {
		lines = append(lines, TransferLine{t.ID, t.At, t.Direction, t.Protocol, t.Who, t.Name, t.Bytes, t.Took.Seconds(), t.Outcome, t.Remote, t.Acknowledged, max(t.Count, 1)})
	}
	return lines
}

// Query is the query of GET /v1/transfers.
type Query struct {
	Who       string `query:"who" doc:"only of this one"`
	Direction string `query:"direction" enum:"upload,download"`
	Since     string `query:"since" doc:"RFC 3339"`
	Before    int64  `query:"before" min:"1" doc:"where to go on: the answer before says it as next"`
	Limit     int    `query:"limit" min:"1" max:"10000" default:"100" doc:"transfers at most"`
}

// Filter returns the query as a Filter, or an error if Since is not in the form of RFC 3339.
func (q Query) Filter() (f Filter, err error) {
	f = Filter{Who: q.Who, Direction: q.Direction, Before: q.Before, Limit: q.Limit}
	if q.Since != "" {
		if f.Since, err = time.Parse(time.RFC3339, q.Since); err != nil {
			return f, fmt.Errorf("since %q is not a time like 2026-11-21T09:00:00Z", q.Since)
		}
	}
	return f, nil
}

// Document returns the answer for a filter. running may be nil.
func (l *Log) Document(ctx context.Context, f Filter, running *Running) (doc Document, err error) {
	all := f
	all.Before = 0 // the totals are the same on every page
	totals, err := l.Totals(ctx, all)
	if err != nil {
		return doc, err
	}
	list, err := l.List(ctx, f)
	if err != nil {
		return doc, err
	}
	doc = Document{Totals: append([]TotalLine{}, totals...), Transfers: linesOf(list), Running: linesOf(running.List(f))}
	if len(list) == f.Limit {
		doc.Next = list[len(list)-1].ID
	}
	return doc, nil
}

// PeriodDocument is the answer of GET /v1/transfers/periods.
type PeriodDocument struct {
	Periods []PeriodLine `json:"periods"`
}

// PeriodLine is a Period in JSON.
type PeriodLine struct {
	Begin     time.Time `json:"begin"`
	Who       string    `json:"who,omitempty"`
	Direction string    `json:"direction"`
	Count     int64     `json:"count"`
	Aborted   int64     `json:"aborted"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`
	Rate      float64   `json:"bytes_per_second"`
}

// Line is the period in JSON.
func (p Period) Line() PeriodLine {
	return PeriodLine{p.Begin, p.Who, p.Direction, p.Count, p.Aborted, p.Bytes, p.Took.Seconds(), p.Rate()}
}

// PeriodQuery is the query of GET /v1/transfers/periods.
type PeriodQuery struct {
	By        string `query:"by" enum:"hour,day,month" default:"day" doc:"sums by hour, day or month"`
	Since     string `query:"since" doc:"the first period: a day such as 2026-11-21, or a time (RFC 3339)"`
	Until     string `query:"until" doc:"only what began before this day or time"`
	Who       string `query:"who" doc:"only this robot or account"`
	Direction string `query:"direction" enum:"upload,download" doc:"only upload or download"`
	Each      bool   `query:"each" doc:"one line for each robot and account"`
	Format    string `query:"format" enum:"csv"`
}

// PeriodDocument returns the answer for a filter.
func (l *Log) PeriodDocument(ctx context.Context, f PeriodFilter) (doc PeriodDocument, err error) {
	list, err := l.Periods(ctx, f)
	if err != nil {
		return doc, err
	}
	doc.Periods = make([]PeriodLine, 0, len(list))
	for _, p := range list {
		doc.Periods = append(doc.Periods, p.Line())
	}
	return doc, nil
}

// Filter returns the query as a PeriodFilter. The default of since is two days ago by hour, 30 days
// ago by day, and a year ago by month.
func (q PeriodQuery) Filter(zone *time.Location, now time.Time) (f PeriodFilter, err error) {
	f = PeriodFilter{By: q.By, Who: q.Who, Direction: q.Direction, Each: q.Each}
	now = now.In(zone)
	switch f.By {
	case Hour:
		f.Since = now.AddDate(0, 0, -2)
	case Day:
		f.Since = now.AddDate(0, 0, -30)
	case Month:
		f.Since = now.AddDate(-1, 0, 0)
	}
	if err := display.ParsePeriod(q.Since, q.Until, zone, &f.Since, &f.Until); err != nil {
		return f, err
	}
	// A chart draws all of the periods, so their number must be bounded.
	if f.Until.After(now) {
		f.Until = time.Time{}
	}
	if f.Since.Year() < 1999 {
		return f, fmt.Errorf("since %s: nothing is kept from before 1999", f.Since.Format(time.DateOnly))
	}
	if f.By == Hour && now.Sub(f.Since) > KeepHours {
		return f, fmt.Errorf("since %s: single hours are kept for %d days; ask by day", f.Since.Format(time.DateOnly), int(KeepHours.Hours()/24))
	}
	return f, nil
}

// WritePeriodsCSV writes a line of column names and a line for each period (RFC 4180).
func WritePeriodsCSV(w io.Writer, list []PeriodLine) error {
	out := csv.NewWriter(w)
	out.Write([]string{"begin", "who", "direction", "transfers", "aborted", "bytes", "seconds", "bytes_per_second"})
	for _, p := range list {
		out.Write([]string{p.Begin.Format(time.RFC3339), p.Who, p.Direction, strconv.FormatInt(p.Count, 10), strconv.FormatInt(p.Aborted, 10),
			strconv.FormatInt(p.Bytes, 10), strconv.FormatFloat(p.Seconds, 'f', 3, 64), strconv.FormatFloat(p.Rate, 'f', 0, 64)})
	}
	out.Flush()
	return out.Error()
}

// WritePeriods writes the periods as a table of aligned text.
func WritePeriods(w io.Writer, list []PeriodLine) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "begin\tname\tway\ttransfers\tbytes\tseconds\tbytes/s")
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.1f\t%s\n", p.Begin.Format("2006-01-02 15:04"), cmp.Or(p.Who, "all"), p.Direction, p.Count, p.Bytes, p.Seconds, rate(p.Rate))
	}
	return t.Flush()
}

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

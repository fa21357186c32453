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

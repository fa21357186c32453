package board

import (
	"slices"
	"strings"
	"time"

	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
)

// Charts draws transfers, with uploads and downloads in separate charts: the bytes (of each robot
// or account if f.Each is set) and beside them the mean rate. A period without transfers has no
// rate.
func Charts(p webpage.Page, f transfers.PeriodFilter, periods []transfers.Period, until time.Time) (all []webpage.Chart) {
	begins, column := columnsOf(f, until)
	axis := webpage.TimeAxis(p, begins)
	for _, direction := range []string{transfers.Upload, transfers.Download} {
		if f.Direction != "" && f.Direction != direction {
			continue
		}
		name := p.T("Received from robots")
		if direction == transfers.Download {
			name = p.T("Fetched by readers")
		}
		each, sums := make(map[string][]float64), make([]transfers.Period, len(begins))
		for _, one := range periods {
			i, ok := column[one.Begin.Unix()]
			if !ok || one.Direction != direction {
				continue
			}
			if each[one.Who] == nil {
				each[one.Who] = make([]float64, len(begins))
			}
			each[one.Who][i] += float64(one.Bytes)
			sums[i].Add(one)
		}
		rates := make([]float64, len(begins))
		for i, sum := range sums {
			if rates[i] = sum.Rate(); sum.Took == 0 {
				rates[i] = webpage.NoData
			}
		}
		all = append(all, webpage.NewChart(p, p.T("%s: bytes", name), webpage.UnitBytes, axis, byName(each, len(begins))...),
			webpage.NewChart(p, p.T("%s: bytes a second of a transfer", name), webpage.UnitRate, axis, webpage.Series{Values: rates}))
	}
	return all
}

// columnsOf returns the beginnings of a chart's periods, up to the period of until. column has the
// index of each beginning, in seconds since 1970.
func columnsOf(f transfers.PeriodFilter, until time.Time) (begins []time.Time, column map[int64]int) {
	column = make(map[int64]int)
	for at := f.Beginning(f.Since); !at.After(until); at = f.Next(at) {
		column[at.Unix()] = len(begins)
		begins = append(begins, at)
	}
	return begins, column
}

// byName returns one series for each name, or one series of zeros if there are no names.
func byName(each map[string][]float64, columns int) (all []webpage.Series) {
	for name, values := range each {
		all = append(all, webpage.Series{Name: name, Values: values})
	}
	if all == nil {
		all = []webpage.Series{{Values: make([]float64, columns)}}
	}
	slices.SortFunc(all, func(a, b webpage.Series) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// PeriodName formats the beginning of a period as its name.
func PeriodName(by string, at time.Time) string {
	switch by {
	case transfers.Hour:
		return at.Format("01-02 15:04")
	case transfers.Month:
		return at.Format("2006-01")
	}
	return at.Format(time.DateOnly)
}

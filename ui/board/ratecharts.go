package board

import (
	"time"

	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
)

// Charts draws bytes and mean rates, uploads and downloads apart. Periods without transfers are
// empty places.
func Charts(p webpage.Page, f transfers.PeriodFilter, periods []transfers.Period, until time.Time) (all []webpage.Chart) {
	type key struct {
		begin     int64
		direction string
	}
	found := make(map[key]transfers.Period)
	for _, one := range periods {
		found[key{one.Begin.Unix(), one.Direction}] = one
	}
	for _, direction := range []string{transfers.Upload, transfers.Download} {
		if f.Direction != "" && f.Direction != direction {
			continue
		}
		name := p.T("Received from robots")
		if direction == transfers.Download {
			name = p.T("Fetched by readers")
		}
		var bytes, rates []webpage.Value
		for at := f.Beginning(f.Since); !at.After(until); at = f.Next(at) {
			one := found[key{at.Unix(), direction}]
			label := PeriodName(f.By, at)
			text := p.T("%s: %s, %s, %s", label, p.Bytes(one.Bytes), p.N("%s transfer", "%s transfers", one.Count), p.Rate(one.Rate()))
			bytes = append(bytes, webpage.Value{Amount: float64(one.Bytes), Label: text, Below: label, Other: direction == transfers.Download})
			rates = append(rates, webpage.Value{Amount: one.Rate(), Label: text, Below: label, Other: direction == transfers.Download})
		}
		all = append(all, webpage.NewChart(p.T("%s: bytes", name), bytes, p.BytesOf), webpage.NewChart(p.T("%s: bytes a second of a transfer", name), rates, p.Rate))
	}
	return all
}

// PeriodName names a period by its beginning.
func PeriodName(by string, at time.Time) string {
	switch by {
	case transfers.Hour:
		return at.Format("01-02 15:04")
	case transfers.Month:
		return at.Format("2006-01")
	}
	return at.Format(time.DateOnly)
}

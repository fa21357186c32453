package board

import (
	"context"
	"slices"
	"time"

	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
)

// series draws the robots' work: pages, links and load, each stacked by robot. f.Who names one
// robot; empty: all.
func (b *board) series(ctx context.Context, p webpage.Page, f transfers.PeriodFilter, until time.Time) ([]webpage.Chart, error) {
	points, err := b.Manager.Levelling.Series(ctx, f)
	if err != nil {
		return nil, err
	}
	begins, column := columnsOf(f, until)
	pages, links, load := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, one := range points {
		i, ok := column[one.Begin.Unix()]
		if !ok {
			continue
		}
		for of, amount := range map[*map[string][]float64]int64{&pages: one.Pages, &links: one.Links, &load: one.Load} {
			if (*of)[one.Robot] == nil {
				(*of)[one.Robot] = slices.Repeat([]float64{webpage.NoData}, len(begins))
			}
			(*of)[one.Robot][i] = float64(amount)
		}
	}
	axis := webpage.TimeAxis(p, begins)
	return []webpage.Chart{
		webpage.NewChart(p, p.T("Pages collected"), webpage.UnitCount, axis, byName(pages, len(begins))...),
		webpage.NewChart(p, p.T("Links found"), webpage.UnitCount, axis, byName(links, len(begins))...),
		webpage.NewChart(p, p.T("Load: URLs known and not collected"), webpage.UnitCount, axis, byName(load, len(begins))...),
	}, nil
}

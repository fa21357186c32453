package config

import "time"

// OpenTime returns for how long the window is open between two times, and when it last closes
// before the second one. last is the second time itself if the window is open then.
func (p Plan) OpenTime(from, to time.Time) (open time.Duration, last time.Time) {
	last = from
	for at := from; at.Before(to); {
		begin, ok := p.Window.Next(at)
		if !ok || !begin.Before(to) {
			break
		}
		end := p.Window.Until(begin)
		if end.IsZero() || end.After(to) {
			end = to
		}
		open += end.Sub(begin)
		at, last = end, end
	}
	return open, last
}

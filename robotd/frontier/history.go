package frontier

import (
	"strconv"
	"strings"
	"time"
)

// History is what the visits to a page have shown about its changes.
type History struct {
	Last time.Time // last visit that found the page
	Changes
	Daily
}

// appendTo writes a history in some 20 bytes; times are minutes in base 36. It writes nothing for a
// page without a history.
func (h History) appendTo(b []byte) []byte {
	if h.Last.IsZero() {
		return b
	}
	b = append(b, " ~"...)
	for i, n := range []int64{
		h.Last.Unix() / 60, int64(h.Visits), int64(h.Changed), minutes(h.TimeKept), minutes(h.TimeMoved), int64(h.Times), int64(h.Hits),
	} {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 36)
	}
	return b
}

const minutesADay = 24 * 60

func minutes(days float64) int64 { return int64(days*minutesADay + 0.5) }

// parseHistory parses the result of appendTo, without the space. It returns no history for any
// other text.
func parseHistory(text string) (h History) {
	text, _, _ = strings.Cut(text, " ")
	text, ok := strings.CutPrefix(text, "~")
	fields := strings.Split(text, ",")
	var n [7]int64
	if !ok || len(fields) != len(n) {
		return h
	}
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseInt(f, 36, 64); err != nil || n[i] < 0 {
			return h
		}
	}
	h.Last = time.Unix(n[0]*60, 0).UTC()
	h.Visits, h.Changed = int(n[1]), int(n[2])
	h.TimeKept, h.TimeMoved = float64(n[3])/minutesADay, float64(n[4])/minutesADay
	h.Times, h.Hits = int(n[5]), int(n[6])
	return h
}

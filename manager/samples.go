package manager

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// sample is what a host cost a robot within one hour of the clock.
type sample struct {
	hour     int64 // since 1970, UTC
	requests int64
	bytes    int64 // of the answers
	ms       int64 // of transfer
}

// count adds another's figures.
func (s *sample) count(o sample) {
	s.requests, s.bytes, s.ms = s.requests+o.requests, s.bytes+o.bytes, s.ms+o.ms
}

// samples are a host's at one robot, the oldest first, one for each hour in which it was
// visited. They are kept as a blob of uvarints: for each the hours since the one
// before it (the first: since 1970), requests, bytes, ms.
type samples []sample

// maxSamples is how many are kept: four weeks of one hour a night.
const maxSamples = 28

var errSamples = errors.New("the costs' samples cannot be read")

func parseSamples(blob []byte) (list samples, err error) {
	hour := int64(0)
	for len(blob) > 0 {
		var f [4]int64
		for i := range f {
			v, n := binary.Uvarint(blob)
			if n <= 0 || v > math.MaxInt64 {
				return nil, errSamples
			}
			f[i], blob = int64(v), blob[n:]
		}
		hour += f[0]
		list = append(list, sample{hour, f[1], f[2], f[3]})
	}
	return list, nil
}

func (list samples) blob() []byte {
	var b []byte
	hour := int64(0)
	for _, s := range list {
		for _, v := range [4]int64{s.hour - hour, s.requests, s.bytes, s.ms} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		hour = s.hour
	}
	return b
}

// add counts another sample in; the oldest are forgotten.
func (list samples) add(s sample) samples {
	i, found := slices.BinarySearchFunc(list, s.hour, func(have sample, hour int64) int { return int(have.hour - hour) })
	if found {
		list[i].count(s)
		return list
	}
	list = slices.Insert(list, i, s)
	if n := len(list) - maxSamples; n > 0 {
		list = slices.Delete(list, 0, n)
	}
	return list
}

// outlier is how far from the middle a sample's time is kept apart: at single hosts the
// paper saw ten times as long on one weekday as on another (001, 6.2). It takes
// three samples to know a middle.
const outlier = 4

// distance gives the ms a KB of the samples' middle, and which of them are outliers;
// 0 where nothing came. Samples without a KB tell nothing.
func (list samples) distance() (msPerKB float64, outliers []sample) {
	type rated struct {
		sample
		rate float64
	}
	var rates []rated
	for _, s := range list {
		if s.bytes >= 1024 {
			rates = append(rates, rated{s, max(float64(s.ms), 1) / (float64(s.bytes) / 1024)})
		}
	}
	if len(rates) == 0 {
		return 0, nil
	}
	slices.SortFunc(rates, func(a, b rated) int {
		switch {
		case a.rate < b.rate:
			return -1
		case a.rate > b.rate:
			return 1
		}
		return 0
	})
	middle := rates[len(rates)/2].rate
	if len(rates)%2 == 0 {
		middle = math.Sqrt(middle * rates[len(rates)/2-1].rate)
	}
	var ms, kb float64
	for _, r := range rates {
		if len(rates) >= 3 && (r.rate > middle*outlier || r.rate < middle/outlier) {
			outliers = append(outliers, r.sample)
			continue
		}
		ms, kb = ms+max(float64(r.ms), 1), kb+float64(r.bytes)/1024
	}
	if kb == 0 {
		return middle, outliers
	}
	return ms / kb, outliers
}

// nightly gives the KB of a night, the middle of the nights' sums; a night is a day of
// the calendar in the given zone.
func (list samples) nightly(zone *time.Location) float64 {
	sums := map[int]float64{}
	for _, s := range list {
		t := time.Unix(s.hour*3600, 0).In(zone)
		sums[t.Year()*1000+t.YearDay()] += float64(s.bytes) / 1024
	}
	if len(sums) == 0 {
		return 0
	}
	var nights []float64
	for _, kb := range sums {
		nights = append(nights, kb)
	}
	slices.Sort(nights)
	return nights[len(nights)/2]
}

// weekHour gives the hour of the week, 0 for Monday 00:00, in a zone.
func weekHour(hour int64, zone *time.Location) int {
	t := time.Unix(hour*3600, 0).In(zone)
	return (int(t.Weekday())+6)%7*24 + t.Hour()
}

package manager_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/manager/assign"
)

// simulation is a host that several robots visit, each once a night at its own hour.
type simulation struct {
	robots, nights, pages int
	changes               func(page int) float64                            // a day
	given                 func(robot, page, night int, truth string) string // what a robot is given of it
	visits                []assign.Visit
}

func (w *simulation) run(seed uint64) []assign.Copies {
	r := rand.New(rand.NewPCG(seed, 5))
	for page := range w.pages {
		version, last := 0, 0.0
		for night := range w.nights {
			hours := make([]float64, w.robots)
			order := make([]int, w.robots)
			for i := range hours {
				hours[i], order[i] = 24*float64(night)+6*r.Float64(), i
			}
			slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, hours[a]-hours[b])) })
			for _, i := range order {
				if r.Float64() < 1-math.Exp(-w.changes(page)*(hours[i]-last)/24) {
					version++
				}
				last = hours[i]
				truth := fmt.Sprint(version)
				if w.given != nil {
					truth = w.given(i, page, night, truth)
				}
				at := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC).Add(time.Duration(hours[i] * float64(time.Hour)))
				w.visits = append(w.visits, assign.Visit{URL: fmt.Sprintf("http://a.jp/%d", page), Robot: fmt.Sprint("r", i), At: at, Digest: truth})
			}
		}
	}
	return assign.Judge(w.visits)
}

func odd(list []assign.Copies) (names []string) {
	for _, v := range list {
		if v.Odd {
			names = append(names, v.Robot)
		}
	}
	return names
}

// Pages that change, however often, are no robot's fault.
func TestChangesAreExplainedByTime(t *testing.T) {
	for _, robots := range []int{2, 3, 5} {
		for _, rate := range []float64{0, 0.1, 1, 10, 1000} {
			w := &simulation{robots: robots, nights: 6, pages: 200, changes: func(int) float64 { return rate }}
			if list := w.run(uint64(robots)); len(odd(list)) > 0 {
				t.Errorf("%d robots, %v changes a day: %+v", robots, rate, list)
			}
		}
	}
}

// A robot whose network changes its pages is found among three robots in the first night. With
// one peer, both are shown from the second night on.
func TestFalsifiedPagesAreFound(t *testing.T) {
	rates := func(page int) float64 { return []float64{0.01, 0.5, 5}[page%3] }
	for name, inject := range map[string]func(truth string, night int) string{
		"the same each time": func(truth string, _ int) string { return truth + " ad" },
		"another each night": func(truth string, night int) string { return fmt.Sprint(truth, " ad ", night) },
	} {
		given := func(robot, page, night int, truth string) string {
			if robot == 1 && page%4 == 0 { // where it finds room for it
				return inject(truth, night)
			}
			return truth
		}
		w := &simulation{robots: 3, nights: 1, pages: 100, changes: rates, given: given}
		if list := w.run(1); !slices.Equal(odd(list), []string{"r1"}) {
			t.Errorf("%s, one night, three robots: %+v", name, list)
		}
		w = &simulation{robots: 3, nights: 4, pages: 100, changes: rates, given: given}
		if list := w.run(2); !slices.Equal(odd(list), []string{"r1"}) {
			t.Errorf("%s, four nights, three robots: %+v", name, list)
		}
		w = &simulation{robots: 2, nights: 3, pages: 100, changes: rates, given: given}
		if list := w.run(3); !slices.Contains(odd(list), "r1") {
			t.Errorf("%s, two robots: %+v", name, list)
		}
	}
}

// Pages that alternate, such as pages with changing advertisements, are no robot's fault.
func TestPagesThatGoBackAreLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	w := &simulation{robots: 3, nights: 10, pages: 100, changes: func(int) float64 { return 0 },
		given: func(_, _, _ int, _ string) string { return fmt.Sprint(r.IntN(2)) }}
	if list := w.run(1); len(odd(list)) > 0 {
		t.Errorf("%+v", list)
	}
}

func TestWithoutPeersNothingIsJudged(t *testing.T) {
	w := &simulation{robots: 1, nights: 5, pages: 10, changes: func(int) float64 { return 0 }}
	if list := w.run(1); len(list) != 1 || list[0].Compared != 0 || list[0].Odd {
		t.Errorf("%+v", list)
	}
	if list := assign.Judge(nil); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

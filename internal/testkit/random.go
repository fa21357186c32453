package testkit

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// randoms has the random number generators of the running tests, by the tests' names.
var randoms sync.Map

// Random returns the test's random number generator, with another seed in each run. The test logs
// the seed; to repeat a run, set SHEAF_TEST_SEED. Goroutines may share the generator, but the order
// in which they use it is not repeated.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	if r, ok := randoms.Load(t.Name()); ok {
		return r.(*rand.Rand)
	}
	seed := rand.Uint64()
	if text := os.Getenv("SHEAF_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		Must(t, err)
	}
	name := fnv.New64()
	name.Write([]byte(t.Name()))
	r, again := randoms.LoadOrStore(t.Name(), rand.New(&sharedSource{source: rand.NewPCG(seed, name.Sum64())}))
	if !again {
		t.Logf("SHEAF_TEST_SEED=%d", seed)
		t.Cleanup(func() { randoms.Delete(t.Name()) })
	}
	return r.(*rand.Rand)
}

// sharedSource is a source of random numbers for several goroutines.
type sharedSource struct {
	mu     sync.Mutex // guards source
	source *rand.PCG
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// Moment waits for a random part of the time most. Use it before an action at a random moment of a
// program's work, such as killing the program.
func Moment(random *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(most))))
}

// Midday returns a zone in which it was between 12:00 and 13:00 at the first call in the test
// process. Tests whose result would change at midnight use it: there is no midnight for eleven
// hours. window.Parse knows the zone's name.
var Midday = sync.OnceValue(func() *time.Location {
	name := fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) // Etc/GMT+3 is three hours behind UTC
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
})

// NextMidnight returns the time, in UTC, at which the day in Midday's zone ends.
func NextMidnight() time.Time {
	y, m, d := time.Now().In(Midday()).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, Midday()).UTC()
}

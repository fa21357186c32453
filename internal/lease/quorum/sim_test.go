package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// world plays servers, clients and the network between them, one event after another, as a seed
// says.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	servers map[string]*played
	clients []*player
	mail    []letter // on its way
	calm    bool     // nothing fails any more
	fences  map[string]int64
	entered map[string]int
	changes int
}

// played is a server and its disk.
type played struct {
	*server
	disk Kept
	down bool
	full bool // its disk refuses to be written
}

// letter is a request, or the answer to one.
type letter struct {
	at     time.Time
	asked  time.Time
	from   *player
	try    *attempt
	moving *change
	server string
	q      request
	r      *answer // nil: it is the request
}

// player is a client that holds a name again and again.
type player struct {
	id     string
	name   string
	config Config
	tries  int
	try    *attempt
	fence  int64 // by which it holds; 0: it does not
	until  time.Time
	move   *change
	polled time.Time
	frozen time.Time // it does nothing until then
}

const (
	simTTL  = 400 * time.Millisecond
	simPoll = 20 * time.Millisecond
	tick    = 5 * time.Millisecond
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1_000_000, 0), servers: make(map[string]*played), fences: make(map[string]int64), entered: make(map[string]int)}
	config := Config{Members: []string{"a", "b", "c"}[:1+w.random.IntN(3)]}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		p := &played{disk: Kept{Config: config}}
		w.servers[name] = p
		w.start(name)
	}
	for n := range 2 + w.random.IntN(3) {
		w.clients = append(w.clients, &player{id: fmt.Sprint("client", n), name: []string{"x", "x", "y"}[w.random.IntN(3)], config: config})
	}
	if w.random.IntN(2) == 0 {
		w.clients = append(w.clients, &player{id: "operator", name: serversName, config: config}, &player{id: "operator2", name: serversName, config: config})
	}
	return w
}

var errDiskFull = errors.New("the disk is full")

func (w *world) start(name string) {
	p := w.servers[name]
	p.server = newServer(name, p.disk, simTTL, w.now, func(k Kept) error {
		if p.full {
			return errDiskFull
		}
		p.disk = k
		return nil
	})
}

// post puts a letter on its way: late, twice or never.
func (w *world) post(l letter) {
	if !w.calm {
		switch w.random.IntN(12) {
		case 0:
			return
		case 1:
			again := l
			again.at = w.now.Add(time.Duration(w.random.IntN(1200)) * time.Millisecond)
			w.mail = append(w.mail, again)
		case 2:
			l.at = w.now.Add(time.Duration(w.random.IntN(1200)) * time.Millisecond)
			w.mail = append(w.mail, l)
			return
		}
	}
	l.at = w.now.Add(time.Duration(w.random.IntN(15)) * time.Millisecond)
	w.mail = append(w.mail, l)
}

// deliver delivers what has arrived.
func (w *world) deliver() {
	var due []letter
	w.mail = slices.DeleteFunc(w.mail, func(l letter) bool {
		if l.at.After(w.now) {
			return false
		}
		due = append(due, l)
		return true
	})
	w.random.Shuffle(len(due), func(a, b int) { due[a], due[b] = due[b], due[a] })
	for _, l := range due {
		if l.r == nil {
			if p := w.servers[l.server]; !p.down {
				if r, err := p.handle(w.now, l.q); err == nil {
					l.r = &r
					w.post(l)
				}
			}
			continue
		}
		p := l.from
		switch {
		case l.moving != nil && l.moving == p.move:
			p.move.heard(w.now, l.server, l.q, *l.r)
		case l.moving == nil && l.try == p.try && p.try != nil && !w.now.Before(p.frozen):
			p.try.heard(w.now, l.server, l.asked, l.q, *l.r)
			p.config = p.try.config
		}
	}
}

// play lets a client do what it does now.
func (w *world) play(p *player) {
	if w.now.Before(p.frozen) {
		return
	}
	if !w.calm && w.random.IntN(400) == 0 { // it is suspended, and goes on as if no time had passed
		p.frozen = w.now.Add(time.Duration(w.random.IntN(2000)) * time.Millisecond)
		return
	}
	if p.try == nil {
		if !w.calm && w.random.IntN(20) > 0 {
			return
		}
		p.tries++
		p.try = newAttempt(p.name, fmt.Sprintf("%s.%d", p.id, p.tries), p.config, simTTL)
	}
	certain := w.now.Before(p.try.certain(w.now))
	switch {
	case p.try.stage == holding && p.fence == 0 && certain:
		w.enters(p)
	case p.fence > 0 && !certain, p.try.stage == lapsed:
		w.leaves(p)
		return
	case p.fence > 0 && p.move == nil && w.now.After(p.until), p.move != nil && p.move.step >= changed:
		if p.move != nil && p.move.step == changed {
			w.changes++
		}
		w.leaves(p)
		return
	case p.fence == 0 && !w.calm && w.random.IntN(300) == 0: // it gives up, or is killed and says nothing
		if w.random.IntN(2) == 0 {
			w.leaves(p)
		}
		p.try = nil
		return
	}
	if w.now.Sub(p.polled) < simPoll {
		return
	}
	p.polled = w.now
	for _, server := range p.try.config.all() {
		w.post(letter{asked: w.now, from: p, try: p.try, server: server, q: p.try.next(w.now, server)})
	}
	if p.move != nil {
		for _, server := range p.move.joint.all() {
			if q, ok := p.move.next(w.now, server); ok {
				w.post(letter{asked: w.now, from: p, moving: p.move, server: server, q: q})
			}
		}
	}
}

// enters checks what holds when a client begins to hold its name.
func (w *world) enters(p *player) {
	p.fence, p.until = p.try.fence, w.now.Add(time.Duration(w.random.IntN(150))*time.Millisecond)
	w.entered[p.name]++
	if p.fence <= w.fences[p.name] {
		w.t.Fatalf("%s holds %s by %d after %d", p.id, p.name, p.fence, w.fences[p.name])
	}
	w.fences[p.name] = p.fence
	for _, o := range w.clients {
		if o != p && o.name == p.name && o.fence > 0 && w.now.Before(o.try.certain(w.now)) {
			w.t.Fatalf("%s and %s both hold %s", p.id, o.id, p.name)
		}
	}
	if p.name == serversName && !w.calm {
		all := []string{"a", "b", "c", "d", "e"}
		w.random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		p.move = newChange(p.try.config, all[:1+w.random.IntN(4)], p.fence, simTTL)
	}
}

func (w *world) leaves(p *player) {
	for _, server := range p.try.config.all() {
		q := p.try.next(w.now, server)
		q.Kind = kindLeave
		w.post(letter{asked: w.now, from: p, try: p.try, server: server, q: q})
	}
	p.fence, p.try, p.move = 0, nil, nil
}

// fail lets a server crash, come back, or run out of disk.
func (w *world) fail() {
	names := []string{"a", "b", "c", "d", "e"}
	p := w.servers[names[w.random.IntN(len(names))]]
	switch w.random.IntN(4) {
	case 0:
		p.full = !p.full
	case 1:
		if !p.down {
			w.start(p.name)
		}
	default:
		if p.down = !p.down; !p.down {
			w.start(p.name)
		}
	}
}

func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(tick) {
		if !w.calm && w.random.IntN(100) == 0 {
			w.fail()
		}
		w.deliver()
		for _, p := range w.clients {
			w.play(p)
		}
	}
}

// Whatever is late, lost, doubled, restarted, suspended, full or changed: two clients never hold a
// name, fencing tokens rise, and when all works again everybody who waits gets its turn.
func TestSchedules(t *testing.T) {
	schedules, first := testkit.Size(100, 10_000), uint64(0)
	if testkit.Full() {
		first = testkit.Random(t).Uint64()
	}
	turns, changes := 0, 0
	for seed := range schedules {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, first+uint64(seed))
			w.run(4 * time.Second)
			w.calm = true
			for _, p := range w.servers {
				if p.full = false; p.down {
					p.down = false
					w.start(p.name)
				}
			}
			for _, p := range w.clients {
				p.frozen = time.Time{}
			}
			before := make(map[string]int)
			for _, p := range w.clients {
				before[p.id] = p.tries
			}
			w.run(6 * time.Second)
			for _, p := range w.clients {
				if p.tries < before[p.id]+2 {
					t.Errorf("%s got %d turns of %s in six quiet seconds: %+v", p.id, p.tries-before[p.id], p.name, p.try)
				}
			}
			for _, n := range w.entered {
				turns += n
			}
			changes += w.changes
		})
		if !ok {
			return
		}
	}
	t.Logf("%d schedules, %d turns, %d changes of the servers", schedules, turns, changes)
	if turns < 10*schedules || changes < schedules/10 {
		t.Error("too little has happened")
	}
}

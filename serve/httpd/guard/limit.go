package guard

import (
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/serve/account"
)

const (
	accountSearches = 4 // searches under way of one account

	// Searches for a list of URLs and hosts, which count as searches too. A list of
	// records.MaxTargets lines takes some 30 MB of memory while it is read and searched for.
	accountLists, allLists = 2, 4

	// Requests that wait for changes. Each looks for them twice a second.
	accountPolls, allPolls = 16, 1000

	// Long bodies that are being received. Such a request has no other place meanwhile.
	accountBodies, allBodies = 4, 32

	// Long answers that are being sent from temporary files. Such a request has no other place
	// meanwhile.
	accountAnswers, allAnswers = 16, 256

	// retry is the time after which a request that was turned away may be sent again.
	retry = 5 * time.Second
)

func allSearches() int { return 4 * max(2, runtime.GOMAXPROCS(0)) }

// Limits bound how many costly requests are under way: of one account, of one neighbourhood of
// addresses and in all. Anonymous requests count by network address. A request keeps its place
// while the machine works for it: not while its body comes, nor while its answer is sent. So a slow
// client delays only itself. The methods, and each leave that they return, may be called
// concurrently. A leave may be called again.
type Limits struct {
	searches *Gate
	Lists    *Gate // of requests that parse a list, and search or not
	Polls    *Gate // of requests that wait for changes
	Bodies   *Gate // of requests whose long body is received
	Answers  *Gate // of long answers, which take room on the disk however slowly they are read
}

// NewLimits returns limits that all handlers of a service must share.
func NewLimits() *Limits {
	return &Limits{
		searches: newGate(accountSearches, allSearches(), "searches", "searches"),
		Lists:    newGate(accountLists, allLists, "searches for a list", "lists"),
		Polls:    newGate(accountPolls, allPolls, "requests that wait for changes", "waits"),
		Bodies:   newGate(accountBodies, allBodies, "long lists on their way", "bodies"),
		Answers:  newGate(accountAnswers, allAnswers, "long answers on their way", "answers"),
	}
}

// Search counts a search until leave is called. It fails with the problem to answer. Call it after
// receiving the body, which may be a list, and before parsing it.
func (l *Limits) Search(r *http.Request, a *account.Account) (leave func(), err error) {
	if r.Method != http.MethodPost {
		return l.searches.Enter(r, a)
	}
	leaveLists, err := l.Lists.Enter(r, a)
	if err != nil {
		return nil, err
	}
	leaveSearches, err := l.searches.Enter(r, a)
	if err != nil {
		leaveLists()
		return nil, err
	}
	return func() { leaveSearches(); leaveLists() }, nil
}

// Gate lets a bounded number of requests of one kind in.
type Gate struct {
	perAccount, total int
	what              string // name of the requests, in the plural
	reason            string // of a problem, for programs

	mu     sync.Mutex // guards the following
	by     map[string]int
	around map[netip.Prefix]int // by neighbourhood; see peer.Neighbourhood
	all    int
}

func newGate(perAccount, total int, what, reason string) *Gate {
	return &Gate{perAccount: perAccount, total: total, what: what, reason: reason, by: make(map[string]int), around: make(map[netip.Prefix]int)}
}

// Enter lets a request in until leave is called, or fails with the problem to answer. A
// neighbourhood gets half of the places at most. The last quarter is for accounts without a place,
// so that a few accounts cannot fill all.
func (g *Gate) Enter(r *http.Request, a *account.Account) (leave func(), err error) {
	client := peer.Addr(r.RemoteAddr)
	payer, around := a.Name, peer.Neighbourhood(client)
	if payer == account.Anonymous {
		payer += " " + peer.Network(client).String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch mine := g.by[payer]; {
	case mine >= g.perAccount, mine > 0 && g.all >= g.total-g.total/4:
		return nil, Busy(http.StatusTooManyRequests, "too_many_"+g.reason,
			fmt.Sprintf("this account has %d %s under way; wait for one of them", mine, g.what))
	case around.IsValid() && g.around[around] >= g.total/2:
		return nil, Busy(http.StatusTooManyRequests, "too_many_"+g.reason,
			fmt.Sprintf("clients of %s have %d %s under way; wait for one of them", around, g.around[around], g.what))
	case g.all >= g.total:
		return nil, Busy(http.StatusServiceUnavailable, g.reason+"_busy", fmt.Sprintf("as many %s are under way as the service does at once", g.what))
	}
	g.by[payer]++
	g.around[around]++
	g.all++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all--
		if g.by[payer]--; g.by[payer] == 0 {
			delete(g.by, payer)
		}
		if g.around[around]--; g.around[around] == 0 {
			delete(g.around, around)
		}
	}), nil
}

// Busy returns a problem that asks to come again in a few seconds.
func Busy(status int, reason, detail string) error {
	p := problem.New(status, reason, detail)
	p.Next = time.Now().Add(retry).UTC().Format(time.RFC3339)
	return p
}

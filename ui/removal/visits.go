package removal

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gorilla/mux"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"

	"sheaf/deploy"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/botauth"
	"sheaf/internal/peer"
	"sheaf/internal/preference"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/manager/roster"
	"sheaf/serve/httpd/guard"
)

// Limits of checks.
const (
	maxHeaders   = 64 << 10 // bytes
	checkEvery   = 10 * time.Second
	checkBurst   = 20  // of one network at once; beyond that, one in checkEvery
	allChecks    = 100 // of all networks in a second
	networksHeld = 10_000
	robotsShown  = 500
)

// Visits answers owners of sites who ask whether a visit was a robot's. It tells no site which
// other sites the robots visit. It may be used by many goroutines at once.
type Visits struct {
	Site   *webpage.Site
	Roster *roster.Roster

	usual    usual // of the robots' settings
	networks *lru.Cache[netip.Prefix, *rate.Limiter]
	all      *rate.Limiter
}

// usual is how robots visit, unless the people at a robot's site have set something else.
type usual struct {
	Every  time.Duration `yaml:"interval"`
	Window string
}

// NewVisits returns the page for the robots of a roster.
func NewVisits(site *webpage.Site, robots *roster.Roster) *Visits {
	networks, _ := lru.New[netip.Prefix, *rate.Limiter](networksHeld) // fails for sizes below 1 only
	var u usual
	if err := yaml.Unmarshal([]byte(deploy.Robotd), &u); err != nil {
		panic(err) // the settings are part of the program
	}
	return &Visits{Site: site, Roster: robots, usual: u, networks: networks, all: rate.NewLimiter(allChecks, allChecks)}
}

// Visit is what the owner of a site knows of a visit. It has headers, or an address and a time, or
// both.
type Visit struct {
	Headers string `json:"headers,omitempty"` // of the request, line by line
	Host    string `json:"host,omitempty"`    // that was asked, if the headers have no line with it
	Address string `json:"address,omitempty"` // that the request came from
	Time    string `json:"time,omitempty"`    // as in the log of a server; without a zone it is in the service's
}

// visitForm is a Visit sent by the page's form.
type visitForm struct {
	Headers string `form:"headers"`
	Host    string `form:"host"`
	Address string `form:"address"`
	Time    string `form:"time"`
}

// Findings is the answer about a visit.
type Findings struct {
	Findings []Finding `json:"findings"`
}

// Finding is what one kind of evidence says about a visit.
type Finding struct {
	By    string `json:"by"`              // signature, user-agent or address
	Ours  string `json:"ours"`            // yes, no or unknown
	Robot string `json:"robot,omitempty"` // its name; empty: it is not told
	Text  string `json:"text"`            // the same in words
}

// Good reports whether the visit was a robot's.
func (f Finding) Good() bool { return f.Ours == yes }

const yes, no, unknown = "yes", "no", "unknown"

var (
	showVisits = webpage.Get[route.None](api.PathRobots, route.Anybody, "For owners of sites: who the robots are, and a form to check a visit")
	takeVisit  = webpage.Form[visitForm](api.PathRobots, route.Anybody, audit.None, "Was a visit one of the robots'?", "").
			Answering(http.StatusOK, "The page, with the answer").Sends(html).Also(http.StatusBadRequest, html, "The page, which says what is wrong")
	checkVisit = route.New[Visit, Findings](http.MethodPost, api.PathVisits, route.Anybody, audit.None, "Was a visit one of the robots'?").Under("people")
)

// VisitRoutes returns the operations, for the API description.
func VisitRoutes() []*route.Route {
	return []*route.Route{showVisits.Route, takeVisit.Route, checkVisit.Route}
}

// Register mounts the page and its JSON.
func (v *Visits) Register(r *mux.Router, g *guard.Guard) {
	r.Handle(api.PathRobots, problem.Within(g.Public(v.show))).Methods(http.MethodGet, http.MethodHead)
	r.Handle(api.PathRobots, problem.Within(g.Public(v.take))).Methods(http.MethodPost)
	checkVisit.On(func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, problem.Within(g.Public(func(w http.ResponseWriter, r *http.Request) error {
			if err := v.admit(r); err != nil {
				return err
			}
			return h(w, r)
		}))).Methods(op.Method)
	}, func(ctx context.Context, visit Visit) (Findings, error) {
		found, err := v.check(ctx, webpage.Page{Site: v.Site, Lang: "en"}, visit)
		if bad, ok := errors.AsType[*badVisit](err); ok {
			err = problem.New(http.StatusBadRequest, "bad_visit", bad.says)
		}
		return Findings{found}, err
	})
}

// visitsPage is the page, with what was entered and found.
type visitsPage struct {
	webpage.Page
	Visit
	Agent     string // the robots' User-Agent
	Directory string // path of the keys
	Card, API string
	usual
	Kept     int // days
	Robots   []roster.Robot
	Findings []Finding
	Wrong    string
}

//go:embed visits.html
var visitsText string

var visitsTemplate = webpage.Parse(visitsText)

func (v *Visits) show(w http.ResponseWriter, r *http.Request) error {
	return v.answer(w, r, http.StatusOK, visitsPage{})
}

func (v *Visits) take(w http.ResponseWriter, r *http.Request) error {
	if err := v.admit(r); err != nil {
		return err
	}
	in, err := route.Form[visitForm](w, r)
	if err != nil {
		return err
	}
	p, status := visitsPage{Visit: Visit(in)}, http.StatusOK
	p.Findings, err = v.check(r.Context(), v.Site.For(r), p.Visit)
	if bad, ok := errors.AsType[*badVisit](err); ok {
		status, p.Wrong, err = http.StatusBadRequest, bad.says, nil
	}
	if err != nil {
		return err
	}
	return v.answer(w, r, status, p)
}

func (v *Visits) answer(w http.ResponseWriter, r *http.Request, status int, p visitsPage) error {
	p.Page, p.Agent, p.usual, p.Kept = v.Site.For(r), preference.Robot, v.usual, int(roster.AddressesKept.Hours()/24)
	p.Directory, p.Card, p.API = botauth.PathDirectory, botauth.PathCard, api.PathVisits
	for _, text := range []*string{&p.Headers, &p.Host, &p.Address, &p.Time} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxHeaders)], "\uFFFD")
	}
	var err error
	if p.Robots, err = v.Roster.Working(r.Context(), robotsShown); err != nil {
		return err
	}
	return webpage.Show(w, r, status, visitsTemplate, p)
}

// admit counts a check. It fails if too many came from the client's network, or from all networks
// together.
func (v *Visits) admit(r *http.Request) error {
	network := peer.Network(peer.Addr(r.RemoteAddr))
	of, ok := v.networks.Get(network)
	if !ok {
		of = rate.NewLimiter(rate.Every(checkEvery), checkBurst)
		v.networks.Add(network, of)
	}
	if !of.Allow() || !v.all.Allow() {
		return &problem.Error{
			Status: http.StatusTooManyRequests, Reason: "too_many_checks", Detail: "too many visits were checked from your network, or at once; try again in some seconds",
			Next: time.Now().Add(checkEvery).UTC().Format(time.RFC3339),
		}
	}
	return nil
}

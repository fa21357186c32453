package removal

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
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

// badVisit says what is wrong with what was entered, in the reader's language.
type badVisit struct{ says string }

func (b *badVisit) Error() string { return b.says }

// check finds out whether a visit was a robot's. It fails with a *badVisit.
func (v *Visits) check(ctx context.Context, p webpage.Page, in Visit) (found []Finding, err error) {
	now := time.Now()
	if len(in.Headers) > maxHeaders {
		return nil, &badVisit{p.T("The headers have more than %s bytes.", p.Number(maxHeaders))}
	}
	if strings.TrimSpace(in.Headers) != "" {
		f, err := v.byHeaders(ctx, p, in, now)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	address, at := strings.TrimSpace(in.Address), strings.TrimSpace(in.Time)
	switch {
	case address != "" && at != "":
		f, err := v.byAddress(ctx, p, address, at, now)
		return append(found, f), err
	case address != "" || at != "" || len(found) == 0:
		return nil, &badVisit{p.T("Paste the headers of a request, or give the address that it came from and the time.")}
	}
	return found, nil
}

// byHeaders judges the headers of a request.
func (v *Visits) byHeaders(ctx context.Context, p webpage.Page, in Visit, now time.Time) (Finding, error) {
	h, host := parseHeaders(in.Headers)
	if given := strings.TrimSpace(in.Host); given != "" {
		host = given
	}
	seen, err := botauth.Read(h)
	switch {
	case err != nil:
		return Finding{By: "signature", Ours: no, Text: p.T("Not ours: the headers have a signature, but not of the form that our robots send.")}, nil
	case seen == nil:
		return byAgent(p, h.Get("User-Agent")), nil
	case host == "":
		return Finding{By: "signature", Ours: unknown, Text: p.T("The signature holds for one host only, and the headers do not say which. Paste the line with Host, too, or fill in the host.")}, nil
	}
	robot, key, err := v.Roster.KeyOf(ctx, seen.KeyID)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{By: "signature", Ours: no}
	switch {
	case robot == "":
		f.Text = p.T("Not ours: no robot of this archive has the key of this signature, or had it in the last 30 days. Keys of robots that were revoked do not count.")
	case !seen.By(key.Key, host):
		f.Text = p.T("Not ours: the signature names a key of ours, but it is not over a request to %s. It was copied, or the headers are not complete.", host)
	case seen.Created.Before(key.Begins) || seen.Created.After(key.Ends) || seen.Created.After(now.Add(time.Hour)):
		f.Text = p.T("Not ours: the signature says that it was made at %s, when its key was not in use.", p.Second(seen.Created))
	case now.After(seen.Expires):
		f.Ours, f.Robot = yes, robot
		f.Text = p.T("Ours: robot %s signed this request to %s at %s. The signature has expired: it was good until %s. If the request came later, somebody has sent a copy.", robot, host, p.Second(seen.Created), p.Second(seen.Expires))
	default:
		f.Ours, f.Robot = yes, robot
		f.Text = p.T("Ours: robot %s signed this request to %s at %s. The signature is good until %s.", robot, host, p.Second(seen.Created), p.Second(seen.Expires))
	}
	return f, nil
}

// byAgent judges a request without a signature.
func byAgent(p webpage.Page, agent string) Finding {
	if strings.HasPrefix(strings.ToLower(agent), preference.Robot+"/") {
		return Finding{By: "user-agent", Ours: unknown, Text: p.T("The User-Agent is that of our robots, but anybody can send it, and there is no signature. Give the address that the request came from and the time: they show whether it was ours.")}
	}
	return Finding{By: "user-agent", Ours: no, Text: p.T("Not ours: there is neither a signature nor the User-Agent of our robots.")}
}

// byAddress judges an address and a time.
func (v *Visits) byAddress(ctx context.Context, p webpage.Page, address, clock string, now time.Time) (Finding, error) {
	from, ok := parseVisitor(address)
	if !ok {
		return Finding{}, &badVisit{p.T("This is not an IP address: %s", short(address))}
	}
	at, ok := parseTime(clock, v.Site.Local(now).Location())
	if !ok {
		return Finding{}, &badVisit{p.T("This is not a time with a date and, where it is not this archive's, a zone such as +0900: %s", short(clock))}
	}
	f, when := Finding{By: "address", Ours: unknown}, p.Second(at)
	switch {
	case at.After(now.Add(time.Minute)):
		f.Text = p.T("%s has not come yet.", when)
		return f, nil
	case now.Sub(at) > roster.AddressesKept:
		f.Text = p.T("%s is longer ago than %d days: from where robots came then is not kept.", when, int(roster.AddressesKept.Hours()/24))
		return f, nil
	}
	ours, err := v.Roster.VisitedFrom(ctx, from, at)
	if ours {
		f.Ours, f.Text = yes, p.T("Ours: at %s, a robot of ours visited sites from %s.", when, from)
	} else {
		f.Ours, f.Text = no, p.T("Not ours, as far as is known: at %s, no robot of ours is known to have visited sites from %s. Only a signature could show otherwise, for a robot that also came by another address than the one by which it speaks to this archive.", when, from)
	}
	return f, err
}

// header matches a header line, also with one of HTTP/2's names such as :authority.
var header = regexp.MustCompile(`^(:?[A-Za-z][\w-]*)\s*:(.*)$`)

// parseHeaders reads the pasted headers of a request. A line without a name continues the field
// before it.
func parseHeaders(text string) (h http.Header, host string) {
	h = http.Header{}
	name, value := "", []byte(nil) // of the field in hand
	put := func() {
		if name != "" {
			h.Add(name, string(value))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "> ")) // as curl -v shows it
		m := header.FindStringSubmatch(line)
		if m == nil {
			value = append(append(value, ' '), line...)
			continue
		}
		put()
		name, value = http.CanonicalHeaderKey(m[1]), append(value[:0], strings.TrimSpace(m[2])...)
	}
	put()
	return h, cmp.Or(h.Get("Host"), strings.Join(h[":authority"], ""))
}

// parseVisitor parses an IP address, as logs have it.
func parseVisitor(text string) (netip.Addr, bool) {
	a := peer.Addr(text)
	if !a.IsValid() {
		a = peer.Addr(strings.Trim(text, "[]"))
	}
	return a, a.IsValid()
}

// layouts are the forms of times in servers' logs and in headers.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700", "2/Jan/2006:15:04:05", // Apache and nginx
	time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02T15:04", "2006-01-02 15:04", "2006/01/02 15:04:05", // nginx's log of errors
	time.RFC1123Z, time.RFC1123, "Mon, 2 Jan 2006 15:04:05 -0700", time.RFC850, time.ANSIC, time.UnixDate, time.RubyDate,
}

// parseTime parses a time. Without a zone it is in the given one.
func parseTime(text string, zone *time.Location) (time.Time, bool) {
	if _, rest, ok := strings.Cut(text, "["); ok { // a line of a log
		text, _, _ = strings.Cut(rest, "]")
	}
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 1e9 && n < 1e11 {
		return time.Unix(n, 0), true
	}
	for _, layout := range layouts {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		name, offset := at.Zone()
		// A name that Go does not know has the offset 0.
		return at, offset != 0 || name == "" || name == "UTC" || name == "GMT" || !strings.Contains(layout, "MST")
	}
	return time.Time{}, false
}

// short cuts what a stranger entered, for a message.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), 100)], "\uFFFD") }

package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/weburl"
)

// Takedowns lets operators take archives down and lift take-downs.
type Takedowns struct {
	catalog *catalog.Catalog
	recall  func(ctx context.Context, robot string) error
	log     *slog.Logger
}

// NewTakedowns returns the take-downs of a catalog. recall sends a robot's batches that are not
// published yet back to be judged anew. When recall returns, none of these batches is being
// published.
func NewTakedowns(c *catalog.Catalog, recall func(ctx context.Context, robot string) error, log *slog.Logger) *Takedowns {
	return &Takedowns{c, recall, log}
}

// TakedownRequest is the body of POST /v1/admin/takedowns and …/lift. It names a host, or a
// collection or a robot as a whole.
type TakedownRequest struct {
	Host       string    `json:"host,omitempty"`
	Collection string    `json:"collection,omitempty"`
	Robot      string    `json:"robot,omitempty" doc:"all that a robot's batches brought and that was published at since or later"`
	Since      time.Time `json:"since,omitzero" doc:"of a robot; required to take down"`
	Edition    string    `json:"edition,omitempty" doc:"only what this edition brought"`
	URLPrefix  string    `json:"url_prefix,omitempty" doc:"only the pages whose URL begins with this, by http and https"`
	Reason     string    `json:"reason" doc:"why (required); kept for ever"`
	By         string    `json:"by,omitempty" doc:"who decides"`
	Unknown    bool      `json:"unknown,omitempty" doc:"accept a host, or an edition, of which nothing was published"`
}

// TakedownResponse says from which version on a take-down or lift applies, and to how many hosts.
type TakedownResponse struct {
	Version int64 `json:"version"`         // version of the catalog from which on it applies
	Hosts   int   `json:"hosts,omitempty"` // for a collection or a robot: the number of hosts
}

// TakedownQuery is the query of GET /v1/admin/takedowns.
type TakedownQuery struct {
	Host string `query:"host" doc:"only of this host"`
}

// Operations of operators on take-downs and collections.
var (
	ListTakedowns   = route.New[TakedownQuery, []catalog.Tombstone]("GET", api.PathAdminTakedowns, operators.Viewer, audit.None, "What was taken down and lifted")
	ListCollections = route.New[route.None, catalog.CollectionList]("GET", api.PathAdminImported, operators.Viewer, audit.None, "What was imported as collections, also if it is taken down or hidden")
	TakeDown        = route.New[TakedownRequest, TakedownResponse]("POST", api.PathAdminTakedowns, operators.Worker, audit.Takedown, "Take down a host, an edition of it, or URLs; or all that is published of a collection")
	Lift            = route.New[TakedownRequest, TakedownResponse]("POST", api.PathAdminLift, operators.Worker, audit.Lift, "Lift a take-down")
)

// Register mounts the operators' operations.
func (t *Takedowns) Register(r *mux.Router, gate operators.Gate) {
	t.register(gate.Mount(r, t.log, nil))
}

func (t *Takedowns) register(mount route.Mount) {
	ListTakedowns.On(mount, t.List)
	ListCollections.On(mount, t.Collections)
	TakeDown.On(mount, t.TakeDown)
	Lift.On(mount, t.Lift)
}

// Routes returns the operations of this package, for the API description.
func Routes() []*route.Route {
	return slices.Concat(route.List(new(Takedowns).register), route.List(new(Indexer).register), route.List(new(Collector).register))
}

// Take takes down hosts and pages, also those that the archive does not have yet. It returns the
// version of the catalog from which on the take-down applies, and may be repeated.
func (t *Takedowns) Take(ctx context.Context, stones ...catalog.Tombstone) (version int64, err error) {
	for _, s := range stones {
		if err := CheckTakedown(s); err != nil {
			return 0, err
		}
	}
	v, err := t.catalog.Remove(ctx, stones...)
	if err != nil {
		return 0, err
	}
	t.log.WarnContext(ctx, "takes down what its owner asked for", "host", stones[0].Host, "url_prefix", stones[0].URLPrefix, "reason", stones[0].Reason, "by", stones[0].By, "version", v.N)
	return v.N, nil
}

// TakeDomain takes down all shown hosts of a domain, and returns their number. It leaves out hosts
// whose take-down was lifted.
func (t *Takedowns) TakeDomain(ctx context.Context, domain, reason, by string) (int, error) {
	return t.takeShown(ctx, catalog.Key(domain), func(host string) bool {
		name, _, _ := strings.Cut(host, ":")
		return name == domain || strings.HasSuffix(name, "."+domain)
	}, reason, by)
}

// TakePorts is like TakeDomain for the host's other ports, such as example.jp:8080. host has no
// port. If the host's own take-down was lifted, TakePorts takes down nothing.
func (t *Takedowns) TakePorts(ctx context.Context, host, reason, by string) (int, error) {
	s, err := t.catalog.Pin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	if lifted, err := wasLifted(ctx, s, host); err != nil || lifted {
		return 0, err
	}
	return t.takeShown(ctx, catalog.Key(host), func(other string) bool { return strings.HasPrefix(other, host+":") }, reason, by)
}

// takeShown takes down the shown hosts whose keys begin with prefix and for which fits returns
// true.
func (t *Takedowns) takeShown(ctx context.Context, prefix string, fits func(host string) bool, reason, by string) (int, error) {
	s, err := t.catalog.Pin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	list, err := s.Hosts(ctx, prefix, "", 0)
	if err != nil {
		return 0, err
	}
	var stones []catalog.Tombstone
	for _, h := range list {
		if !fits(h.Host) {
			continue
		}
		lifted, err := wasLifted(ctx, s, h.Host)
		if err != nil {
			return 0, err
		}
		if !lifted {
			stones = append(stones, catalog.Tombstone{Host: h.Host, Reason: reason, By: by})
		}
	}
	if len(stones) == 0 {
		return 0, nil
	}
	_, err = t.Take(ctx, stones...)
	return len(stones), err
}

// wasLifted reports whether a take-down of the whole host was lifted.
func wasLifted(ctx context.Context, s *catalog.Snapshot, host string) (bool, error) {
	past, err := s.Takedowns(ctx, host)
	return slices.ContainsFunc(past, func(o catalog.Tombstone) bool { return o.Act == catalog.Lift && o.Whole() }), err
}

// List returns take-downs, lifts and erasures host by host, and for each host in the order of
// recording.
func (t *Takedowns) List(ctx context.Context, q TakedownQuery) ([]catalog.Tombstone, error) {
	s, err := t.catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	stones, err := s.Takedowns(ctx, q.Host)
	return append([]catalog.Tombstone{}, stones...), err // never null
}

// Standing reports for each row of List whether it is a take-down that no later row lifts.
func Standing(rows []catalog.Tombstone) []bool {
	standing := make([]bool, len(rows))
	type what struct {
		host, edition, prefix, collection, robot string
		since                                    int64
	}
	of := make(map[what][]int) // indexes of the take-downs in force
	for i, t := range rows {
		w := what{t.Host, t.Edition, t.URLPrefix, t.Collection, t.Robot, t.Since.UnixNano()}
		switch t.Act {
		case catalog.TakeDown:
			standing[i], of[w] = true, append(of[w], i)
		case catalog.Lift:
			for _, j := range of[w] {
				standing[j] = false
			}
			delete(of, w)
		}
	}
	return standing
}

// Collections returns the imported collections, with their sums.
func (t *Takedowns) Collections(ctx context.Context, _ route.None) (list catalog.CollectionList, err error) {
	s, err := t.catalog.Pin(ctx)
	if err != nil {
		return list, err
	}
	defer s.Release()
	all, err := catalog.Collections(ctx, s)
	if err != nil {
		return list, err
	}
	for i := range all {
		if err := all[i].Sum(all[i].Entries(ctx, s, "")); err != nil {
			return list, err
		}
	}
	return catalog.CollectionList{Collections: append([]catalog.ImportedCollection{}, all...)}, nil
}

// TakeDown takes down what the request names. Unless ask.Unknown is set, it refuses a host or an
// edition of which nothing was published.
func (t *Takedowns) TakeDown(ctx context.Context, ask TakedownRequest) (TakedownResponse, error) {
	stone, err := stoneOf(ctx, ask)
	switch {
	case err != nil:
		return TakedownResponse{}, err
	case stone.Collection != "":
		return t.record(ctx, stone, "takes down a collection", t.catalog.RemoveWhole)
	case stone.Robot != "" && stone.Since.IsZero():
		return TakedownResponse{}, problem.New(http.StatusBadRequest, "bad_takedown", "since is missing: say since when what the robot has published is taken down")
	case stone.Robot != "":
		return t.record(ctx, stone, "takes down what a robot brought", t.removeRobot)
	case !ask.Unknown:
		if err := t.checkKnown(ctx, stone); err != nil {
			return TakedownResponse{}, err
		}
	}
	return t.record(ctx, stone, "takes down a host", ofHost(t.catalog.Remove))
}

// removeRobot takes down what a robot brought, recalls the robot's batches, and takes down those
// that were published between the first take-down and the recall.
func (t *Takedowns) removeRobot(ctx context.Context, stone catalog.Tombstone) (catalog.Version, int, error) {
	v, n, first := t.catalog.RemoveWhole(ctx, stone)
	if first != nil && !errors.Is(first, catalog.ErrNotExist) {
		return v, n, first
	}
	if err := t.recall(ctx, stone.Robot); err != nil {
		return v, n, err
	}
	last, more, err := t.catalog.RemoveWhole(ctx, stone)
	if errors.Is(err, catalog.ErrNotExist) {
		return v, n, first
	}
	return last, n + more, err
}

// Lift lifts the take-downs that the request names. It answers 404 if none of them is in force.
func (t *Takedowns) Lift(ctx context.Context, ask TakedownRequest) (TakedownResponse, error) {
	stone, err := stoneOf(ctx, ask)
	switch {
	case err != nil:
		return TakedownResponse{}, err
	case stone.Collection != "":
		return t.record(ctx, stone, "lifts the take-down of a collection", t.catalog.RestoreWhole)
	case stone.Robot != "":
		return t.record(ctx, stone, "lifts the take-down of what a robot brought", t.catalog.RestoreWhole)
	}
	return t.record(ctx, stone, "lifts the take-down of a host", ofHost(t.catalog.Restore))
}

// stoneOf returns a request as a tombstone, and notes its object for the audit log.
func stoneOf(ctx context.Context, ask TakedownRequest) (catalog.Tombstone, error) {
	stone := catalog.Tombstone{
		Host: strings.ToLower(ask.Host), Edition: ask.Edition, URLPrefix: ask.URLPrefix, Collection: ask.Collection, Robot: ask.Robot, Since: ask.Since,
		Reason: ask.Reason, By: operators.By(ctx, ask.By),
	}
	if p, err := weburl.ParsePrefix(stone.URLPrefix); err == nil {
		stone.URLPrefix = p.String()
	}
	audit.Note(ctx, audit.Row{Object: ObjectOf(stone), Reason: ask.Reason})
	if err := CheckTakedown(stone); err != nil {
		return stone, problem.New(http.StatusBadRequest, "bad_takedown", err.Error())
	}
	return stone, nil
}

// ObjectOf returns the object of a take-down, as the audit log names it.
func ObjectOf(s catalog.Tombstone) string {
	if s.Collection != "" {
		return "collection " + s.Collection
	}
	if s.Robot != "" {
		return "what robot " + s.Robot + " brought"
	}
	text := "host " + s.Host
	if s.Edition != "" {
		text += ", edition " + s.Edition
	}
	if s.URLPrefix != "" {
		text += ", " + s.URLPrefix
	}
	return text
}

// action takes down or lifts what a tombstone names. It returns the number of hosts if the
// tombstone is of a collection or a robot.
type action func(context.Context, catalog.Tombstone) (catalog.Version, int, error)

// ofHost returns the action for a tombstone of a host.
func ofHost(do func(context.Context, ...catalog.Tombstone) (catalog.Version, error)) action {
	return func(ctx context.Context, s catalog.Tombstone) (catalog.Version, int, error) {
		v, err := do(ctx, s)
		return v, 0, err
	}
}

func (t *Takedowns) record(ctx context.Context, s catalog.Tombstone, deed string, do action) (TakedownResponse, error) {
	v, n, err := do(ctx, s)
	if errors.Is(err, catalog.ErrNotExist) {
		reason := "not_taken_down"
		if s.Robot != "" {
			reason = "nothing_of_robot"
		} else if s.Collection != "" {
			reason = "unknown_collection"
		}
		err = problem.New(http.StatusNotFound, reason, err.Error())
	}
	if err != nil {
		return TakedownResponse{}, err
	}
	t.log.WarnContext(ctx, "operator "+deed, "host", s.Host, "edition", s.Edition, "url_prefix", s.URLPrefix,
		"collection", s.Collection, "robot", s.Robot, "hosts", n, "reason", s.Reason, "by", s.By, "version", v.N)
	return TakedownResponse{v.N, n}, nil
}

// checkKnown returns an error if the archive has no entry of the host, or no entry of the host in
// the edition. Without this check, a take-down of a misspelt name would succeed without effect.
func (t *Takedowns) checkKnown(ctx context.Context, want catalog.Tombstone) error {
	s, err := t.catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	stones, err := s.Takedowns(ctx, want.Host)
	if err != nil {
		return err
	}
	lines, err := s.Host(ctx, want.Host)
	if err != nil {
		return err
	}
	in := func(l catalog.SegmentEntry) bool { return want.Edition == "" || l.Edition == want.Edition }
	of := func(o catalog.Tombstone) bool {
		return want.Edition == "" || o.Edition == "" || o.Edition == want.Edition
	}
	switch {
	case slices.ContainsFunc(lines, in), slices.ContainsFunc(stones, of): // s hides entries that are taken down already
		return nil
	case len(lines) == 0 && len(stones) == 0:
		return problem.New(http.StatusNotFound, "unknown_host", fmt.Sprintf("nothing of the host %s was ever published; "+
			"check its name, or give --unknown (\"unknown\": true) to take it down before it comes", want.Host))
	}
	return problem.New(http.StatusNotFound, "unknown_edition", fmt.Sprintf("edition %q has nothing of the host %s; "+
		"look at its MANIFEST, or give --unknown (\"unknown\": true)", want.Edition, want.Host))
}

// CheckTakedown returns an error for a take-down that has no reason or could never apply.
func CheckTakedown(t catalog.Tombstone) error {
	if t.Robot != "" {
		if t.Host+t.Edition+t.URLPrefix+t.Collection != "" {
			return errors.New("what a robot brought is taken down whole; leave out host, edition, URL prefix and collection")
		}
	} else if t.Collection != "" {
		if t.Host+t.Edition+t.URLPrefix != "" {
			return errors.New("a collection is taken down whole; leave out host, edition and URL prefix")
		}
	} else if host, err := naming.HostFromPath(naming.HostPath(t.Host)); t.Host == "" || err != nil || host != t.Host {
		return fmt.Errorf("%q is not a host as archives name them, such as www.example.jp or www.example.jp:8080", t.Host)
	}
	if strings.TrimSpace(t.Reason) == "" {
		return errors.New("no reason is given; it is kept with the take-down")
	}
	if t.URLPrefix == "" {
		return nil
	}
	p, err := weburl.ParsePrefix(t.URLPrefix)
	if err == nil && p.Host() != t.Host {
		err = fmt.Errorf("URL prefix %q does not begin with http://%s/ or https://%s/", t.URLPrefix, t.Host, t.Host)
	}
	return err
}

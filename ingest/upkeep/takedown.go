package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/weburl"
)

// Takedowns lets operators take archives down and lift that again.
type Takedowns struct {
	catalog *catalog.Catalog
	log     *slog.Logger
}

// NewTakedowns returns the take-downs of a catalog.
func NewTakedowns(c *catalog.Catalog, log *slog.Logger) *Takedowns { return &Takedowns{c, log} }

// TakedownRequest is the body of POST /v1/admin/takedowns and …/lift. Of the Tombstone it has
// Reason, By, and either Host, Edition and URLPrefix, or Collection, which is all that is published
// of a collection.
type TakedownRequest struct {
	catalog.Tombstone
	Unknown bool `json:"unknown,omitempty"` // take down a host or edition that the archive does not have
}

// TakedownResponse answers a TakedownRequest.
type TakedownResponse struct {
	Version int64 `json:"version"`         // of the catalog, from which on it holds
	Hosts   int   `json:"hosts,omitempty"` // of a collection: how many had something of it
}

// Register adds the operators' paths to r:
//
//	GET  /v1/admin/takedowns?host=     what was taken down, lifted and erased: a list of catalog.Tombstone
//	GET  /v1/admin/collections         catalog.CollectionList: what was imported, also if it is taken down
//	POST /v1/admin/takedowns           TakedownRequest: take down
//	POST /v1/admin/takedowns/lift      TakedownRequest: lift the take-down of the same host, edition and prefix
func (t *Takedowns) Register(r *mux.Router, gate operators.Gate) {
	for _, route := range []struct {
		method, path string
		least        operators.Role
		act          audit.Act
		serve        func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodGet, api.PathAdminTakedowns, operators.Viewer, audit.None, t.serveList},
		{http.MethodGet, api.PathAdminImported, operators.Viewer, audit.None, t.serveCollections},
		{http.MethodPost, api.PathAdminTakedowns, operators.Worker, audit.Takedown, t.serveTakedown},
		{http.MethodPost, api.PathAdminLift, operators.Worker, audit.Lift, t.serveLift},
	} {
		r.Handle(route.path, gate(route.least, route.act, problem.Handler(t.log, route.serve))).Methods(route.method)
	}
}

// Take takes down hosts and pages, also those that the archive does not have yet, and returns the
// version of the catalog from which on that holds. It may be repeated.
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

// TakeDomain takes down all hosts of a domain of which anything is shown, and returns how many
// these are. It leaves out hosts whose take-down was lifted.
func (t *Takedowns) TakeDomain(ctx context.Context, domain, reason, by string) (int, error) {
	return t.takeShown(ctx, catalog.Key(domain), func(host string) bool {
		name, _, _ := strings.Cut(host, ":")
		return name == domain || strings.HasSuffix(name, "."+domain)
	}, reason, by)
}

// TakePorts takes down a host at its ports other than those of http and https, like TakeDomain. The
// host has no port. If its own take-down was lifted, nothing is taken down.
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

// takeShown takes down the hosts of which anything is shown, whose keys begin with prefix and which
// fit.
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

func (t *Takedowns) serveList(w http.ResponseWriter, r *http.Request) error {
	s, err := t.catalog.Pin(r.Context())
	if err != nil {
		return err
	}
	defer s.Release()
	stones, err := s.Takedowns(r.Context(), r.URL.Query().Get("host"))
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, append([]catalog.Tombstone{}, stones...)) // never null
}

func (t *Takedowns) serveCollections(w http.ResponseWriter, r *http.Request) error {
	s, err := t.catalog.Pin(r.Context())
	if err != nil {
		return err
	}
	defer s.Release()
	all, err := catalog.Collections(r.Context(), s)
	if err != nil {
		return err
	}
	for i := range all {
		if err := all[i].Sum(all[i].Entries(r.Context(), s, "")); err != nil {
			return err
		}
	}
	return problem.JSON(w, http.StatusOK, catalog.CollectionList{Collections: append([]catalog.ImportedCollection{}, all...)})
}

func (t *Takedowns) serveTakedown(w http.ResponseWriter, r *http.Request) error {
	ask, err := readTakedown(w, r)
	if err != nil {
		return err
	}
	if ask.Collection != "" {
		return t.recordOf(w, r, ask.Tombstone, "takes down a collection", t.catalog.RemoveCollection)
	}
	if !ask.Unknown {
		if err := t.checkKnown(r.Context(), ask.Tombstone); err != nil {
			return err
		}
	}
	return t.record(w, r, ask.Tombstone, "takes down a host", t.catalog.Remove)
}

func (t *Takedowns) serveLift(w http.ResponseWriter, r *http.Request) error {
	ask, err := readTakedown(w, r)
	if err != nil {
		return err
	}
	if ask.Collection != "" {
		return t.recordOf(w, r, ask.Tombstone, "lifts the take-down of a collection", t.catalog.RestoreCollection)
	}
	return t.record(w, r, ask.Tombstone, "lifts the take-down of a host", t.catalog.Restore)
}

func readTakedown(w http.ResponseWriter, r *http.Request) (ask TakedownRequest, err error) {
	if err := problem.ReadJSON(w, r, &ask); err != nil {
		return ask, err
	}
	ask.Tombstone = catalog.Tombstone{
		Host: strings.ToLower(ask.Host), Edition: ask.Edition, URLPrefix: ask.URLPrefix, Collection: ask.Collection,
		Reason: ask.Reason, By: operators.By(r.Context(), ask.By),
	}
	if p, err := weburl.ParsePrefix(ask.URLPrefix); err == nil {
		ask.URLPrefix = p.String()
	}
	audit.Note(r.Context(), audit.Row{Object: objectOf(ask.Tombstone), Reason: ask.Reason})
	if err := CheckTakedown(ask.Tombstone); err != nil {
		return ask, problem.New(http.StatusBadRequest, "bad_takedown", err.Error())
	}
	return ask, nil
}

// objectOf names what a take-down is about, for the audit log.
func objectOf(s catalog.Tombstone) string {
	if s.Collection != "" {
		return "collection " + s.Collection
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

func (t *Takedowns) record(w http.ResponseWriter, r *http.Request, s catalog.Tombstone, deed string,
	do func(context.Context, ...catalog.Tombstone) (catalog.Version, error)) error {
	v, err := do(r.Context(), s)
	if errors.Is(err, catalog.ErrNotExist) {
		return problem.New(http.StatusNotFound, "not_taken_down", err.Error())
	}
	if err != nil {
		return err
	}
	t.log.WarnContext(r.Context(), "operator "+deed, "host", s.Host, "edition", s.Edition, "url_prefix", s.URLPrefix, "reason", s.Reason, "by", s.By, "version", v.N)
	return problem.JSON(w, http.StatusOK, TakedownResponse{Version: v.N})
}

// recordOf is record for a collection.
func (t *Takedowns) recordOf(w http.ResponseWriter, r *http.Request, s catalog.Tombstone, deed string,
	do func(ctx context.Context, name, reason, by string) (catalog.Version, int, error)) error {
	v, n, err := do(r.Context(), s.Collection, s.Reason, s.By)
	if errors.Is(err, catalog.ErrNotExist) {
		return problem.New(http.StatusNotFound, "unknown_collection", err.Error())
	}
	if err != nil {
		return err
	}
	t.log.WarnContext(r.Context(), "operator "+deed, "collection", s.Collection, "hosts", n, "reason", s.Reason, "by", s.By, "version", v.N)
	return problem.JSON(w, http.StatusOK, TakedownResponse{v.N, n})
}

// checkKnown returns an error if the archive has nothing of the host, or nothing of it in the
// edition. Without this, a take-down of a misspelt name would succeed and take nothing down.
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
	case slices.ContainsFunc(lines, in), slices.ContainsFunc(stones, of): // s hides the lines of what is taken down already
		return nil
	case len(lines) == 0 && len(stones) == 0:
		return problem.New(http.StatusNotFound, "unknown_host", fmt.Sprintf("nothing of the host %s was ever published; "+
			"check its name, or give --unknown (\"unknown\": true) to take it down before it comes", want.Host))
	}
	return problem.New(http.StatusNotFound, "unknown_edition", fmt.Sprintf("edition %q has nothing of the host %s; "+
		"look at its MANIFEST, or give --unknown (\"unknown\": true)", want.Edition, want.Host))
}

// CheckTakedown returns an error for a take-down that could never apply to anything.
func CheckTakedown(t catalog.Tombstone) error {
	if t.Collection != "" {
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

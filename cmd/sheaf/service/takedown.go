package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/problem"
)

func (k *keeper) serveTakedowns(w http.ResponseWriter, r *http.Request) error {
	s, err := k.catalog.Pin(r.Context())
	if err != nil {
		return err
	}
	defer s.Release()
	stones, err := s.Takedowns(r.Context(), r.URL.Query().Get("host"))
	if err != nil {
		return err
	}
	return answer(w, append([]catalog.Tombstone{}, stones...)) // never null
}

// serveTakedown answers what takes down.
func (k *keeper) serveTakedown(w http.ResponseWriter, r *http.Request) error {
	t, unknown, err := readTakedown(w, r)
	if err != nil {
		return err
	}
	if !unknown {
		if err := k.known(r.Context(), t); err != nil {
			return err
		}
	}
	return k.recordTakedown(w, r, t, "takes down a host", k.catalog.Remove)
}

// serveLift answers what lifts a take-down.
func (k *keeper) serveLift(w http.ResponseWriter, r *http.Request) error {
	t, _, err := readTakedown(w, r)
	if err != nil {
		return err
	}
	return k.recordTakedown(w, r, t, "lifts the take-down of a host", k.catalog.Restore)
}

// readTakedown reads a request's body; unknown says that a host or edition that the archive does not have is
// meant to be taken down.
func readTakedown(w http.ResponseWriter, r *http.Request) (t catalog.Tombstone, unknown bool, err error) {
	var ask struct {
		catalog.Tombstone
		Unknown bool `json:"unknown"`
	}
	if err := body(w, r, &ask); err != nil {
		return t, false, err
	}
	if ask.By == "" {
		ask.By = "operator at " + r.RemoteAddr
	}
	t = catalog.Tombstone{Host: strings.ToLower(ask.Host), Edition: ask.Edition, URLPrefix: ask.URLPrefix, Reason: ask.Reason, By: ask.By}
	if err := checkTakedown(t); err != nil {
		return t, false, problem.New(http.StatusBadRequest, "bad_takedown", err.Error())
	}
	return t, ask.Unknown, nil
}

func (k *keeper) recordTakedown(w http.ResponseWriter, r *http.Request, t catalog.Tombstone, deed string, do func(context.Context, ...catalog.Tombstone) (catalog.Version, error)) error {
	v, err := do(r.Context(), t)
	if errors.Is(err, catalog.ErrNotExist) {
		return problem.New(http.StatusNotFound, "not_taken_down", err.Error())
	}
	if err != nil {
		return err
	}
	k.log.Warn("operator "+deed, "host", t.Host, "edition", t.Edition, "url_prefix", t.URLPrefix, "reason", t.Reason, "by", t.By, "version", v.N)
	return answer(w, struct {
		Version int64 `json:"version"`
	}{v.N})
}

// known fails where the archive has no such host, or nothing of it in that edition: a name that is
// misspelt would take nothing down, and nobody would notice.
func (k *keeper) known(ctx context.Context, t catalog.Tombstone) error {
	s, err := k.catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	stones, err := s.Takedowns(ctx, t.Host)
	if err != nil {
		return err
	}
	lines, err := s.Host(ctx, t.Host)
	if err != nil {
		return err
	}
	in := func(l catalog.Line) bool { return t.Edition == "" || l.Edition == t.Edition }
	of := func(o catalog.Tombstone) bool { return t.Edition == "" || o.Edition == "" || o.Edition == t.Edition }
	switch {
	case slices.ContainsFunc(lines, in), slices.ContainsFunc(stones, of): // what is down already is hidden
		return nil
	case len(lines) == 0 && len(stones) == 0:
		return problem.New(http.StatusNotFound, "unknown_host",
			fmt.Sprintf("nothing of the host %s was ever published; look at its name, or give --unknown (\"unknown\": true) to take it down before it comes", t.Host))
	}
	return problem.New(http.StatusNotFound, "unknown_edition",
		fmt.Sprintf("edition %q has nothing of the host %s; look at its MANIFEST, or give --unknown (\"unknown\": true)", t.Edition, t.Host))
}

// checkTakedown refuses what would take nothing down, silently.
func checkTakedown(t catalog.Tombstone) error {
	if host, err := archive.HostFromPath(archive.HostPath(t.Host)); t.Host == "" || err != nil || host != t.Host {
		return fmt.Errorf("%q is no host as archives have them, such as www.example.jp or www.example.jp:8080", t.Host)
	}
	if strings.TrimSpace(t.Reason) == "" {
		return errors.New("no reason is given; it is kept with the take-down")
	}
	if t.URLPrefix == "" {
		return nil
	}
	u, err := url.Parse(t.URLPrefix)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host != t.Host || u.Path == "" {
		return fmt.Errorf("URL prefix %q does not begin with http://%s/ or https://%s/", t.URLPrefix, t.Host, t.Host)
	}
	return nil
}

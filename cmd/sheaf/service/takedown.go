package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

func (k *keeper) serveTakedown(verb string, do func(context.Context, ...catalog.Tombstone) (catalog.Version, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var ask catalog.Tombstone
		if err := body(w, r, &ask); err != nil {
			return err
		}
		if ask.By == "" {
			ask.By = "operator at " + r.RemoteAddr
		}
		t := catalog.Tombstone{Host: strings.ToLower(ask.Host), Edition: ask.Edition, URLPrefix: ask.URLPrefix, Reason: ask.Reason, By: ask.By}
		if err := checkTakedown(t); err != nil {
			return problem.New(http.StatusBadRequest, "bad_takedown", err.Error())
		}
		v, err := do(r.Context(), t)
		if errors.Is(err, catalog.ErrNotExist) {
			return problem.New(http.StatusNotFound, "not_taken_down", err.Error())
		}
		if err != nil {
			return err
		}
		k.log.Warn("operator "+verb+" a host", "host", t.Host, "edition", t.Edition, "url_prefix", t.URLPrefix, "reason", t.Reason, "by", t.By, "version", v.N)
		return answer(w, struct {
			Version int64 `json:"version"`
		}{v.N})
	}
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

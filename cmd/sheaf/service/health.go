package service

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// PathHealth tells load balancers, and people, whether the process can do its work.
const PathHealth = "/healthz"

// Health answers GET /healthz.
type Health struct {
	Status   string   `json:"status"` // ok; degraded: does a part of its work; down: none
	Roles    []string `json:"roles"`
	Database string   `json:"database"` // ok, or away
	Version  string   `json:"version"`
}

// States of health.
const (
	healthOK       = "ok"
	healthDegraded = "degraded"
	healthDown     = "down"
	healthAway     = "away" // of the database
)

// healthWait is how long the database may take to answer.
const healthWait = 2 * time.Second

// health answers 200 where the process can work in all of its roles, or in the one that
// ?role= names, and else 503. Serve goes on while the database is away (see access.offline);
// the other roles cannot.
func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	h := Health{Status: healthOK, Roles: s.cfg.Roles, Database: healthOK, Version: Version()}
	asked := h.Roles
	if role := r.URL.Query().Get("role"); role != "" {
		if !slices.Contains(h.Roles, role) {
			s.answerHealth(w, http.StatusServiceUnavailable, Health{healthDown, h.Roles, h.Database, h.Version})
			return
		}
		asked = []string{role}
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthWait)
	defer cancel()
	status := http.StatusOK
	if err := s.db.PingContext(ctx); err != nil {
		h.Database, h.Status = healthAway, healthDegraded
		if !slices.Equal(asked, []string{roleServe}) || s.cfg.Access.Offline == 0 {
			status = http.StatusServiceUnavailable
		}
		if !slices.Contains(h.Roles, roleServe) || s.cfg.Access.Offline == 0 {
			h.Status = healthDown
		}
	}
	s.answerHealth(w, status, h)
}

func (s *Service) answerHealth(w http.ResponseWriter, status int, h Health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(h); err != nil {
		s.log.Debug("health: the asker is gone", "err", err)
	}
}

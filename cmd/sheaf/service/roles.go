package service

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sheaf/archive/store"
	"sheaf/internal/problem"
	"sheaf/internal/settings"
	"sheaf/manager"
	"sheaf/serve"
)

// Roles of a process. Each role has the paths and the work of one room.
const (
	roleManager = "manager" // robots' lists, logs and releases; plans which robot collects which host
	roleIngest  = "ingest"  // accepts batches, publishes them, and maintains the catalog
	roleServe   = "serve"   // hands out archives
)

// allRoles returns all roles. They are the default.
func allRoles() []string { return []string{roleManager, roleIngest, roleServe} }

func (c *Config) checkRoles(is *settings.Checks) {
	want := "want some of " + strings.Join(allRoles(), ", ")
	for n, role := range c.Roles {
		is.Require(slices.Contains(allRoles(), role), "roles", role, want)
		is.Require(!slices.Contains(c.Roles[:n], role), "roles", role, "given twice")
	}
	is.Require(len(c.Roles) > 0, "roles", "", want)
	is.Require(len(c.Roles) == 0 || !c.split() || c.Database.URL != "", "roles", strings.Join(c.Roles, ","),
		"leaves roles to other processes, but a SQLite file is for one process alone: set database.url to a PostgreSQL database")
}

// has reports whether the process has at least one of the roles.
func (c *Config) has(roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(c.Roles, role) })
}

// split reports whether other processes have some of the roles.
func (c *Config) split() bool { return !c.has(roleManager) || !c.has(roleIngest) || !c.has(roleServe) }

// readOnly reports whether read access to the store is enough for the process.
func (c *Config) readOnly() bool { return !c.has(roleManager, roleIngest) }

// confined returns the store with the write access that this process needs: to everything for
// roleIngest, to the robots' programs for roleManager, and to the results of consumers' jobs for
// roleServe.
func (c *Config) confined(objects store.Store) store.Store {
	if c.has(roleIngest) {
		return objects
	}
	var own []string
	if c.has(roleManager) {
		own = append(own, manager.StorePrefix)
	}
	if c.has(roleServe) {
		own = append(own, serve.StorePrefix)
	}
	return store.NewConfined(objects, own...)
}

// notFound answers 404. If other processes have some of the roles, the answer says so.
func (c *Config) notFound(w http.ResponseWriter, r *http.Request) error {
	if c.split() {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%s is not here; this process has the roles %s, others have the rest", r.URL.Path, strings.Join(c.Roles, ", ")))
	}
	problem.NotFound(w, r)
	return nil
}

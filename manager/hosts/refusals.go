package hosts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// ErrNotRefused is AllowDomain's error for a domain that is not refused.
var ErrNotRefused = errors.New("this domain is not refused; sheaf host domain ls lists those that are")

// RefusedDomain is a domain whose hosts robots leave out, including hosts that they find later. A
// host that an operator adds afterwards is collected.
type RefusedDomain struct {
	Domain string    `json:"domain"`
	Since  time.Time `json:"since,omitzero"`
	By     string    `json:"by,omitempty" doc:"who decides"`
	Reason string    `json:"reason" doc:"why"`
}

// RefuseHost keeps robots away from a host, even if nobody has found it yet. A host without a port
// is refused at all ports. AddHosts ends the refusal.
func (r *Registry) RefuseHost(ctx context.Context, host string) error {
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		// ';' is the character after ':'. The range is empty for a host with a port.
		others, err := db.Column[string](ctx, t, `SELECT name FROM hosts WHERE state <> ? AND name > ? AND name < ?`, Refused, host+":", host+";")
		if err != nil {
			return fmt.Errorf("refuse host %s at all ports: %w", host, err)
		}
		if err := refuseKnown(ctx, t, others); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `INSERT INTO hosts (name, state, source, created, addresses, grp, resolved, waiting, domain)
			VALUES (?, ?, '', ?, '', ?, 0, 0, ?) ON CONFLICT (name) DO UPDATE SET state = excluded.state, waiting = 0`,
			host, Refused, db.Millis(time.Now()), withoutPort(host), Registered(host))
		if err != nil {
			return fmt.Errorf("refuse host %s: %w", host, err)
		}
		return t.Unassign(ctx, host)
	})
}

// RefuseDomain keeps robots away from all hosts of a domain. It may be called again with the same
// domain.
func (r *Registry) RefuseDomain(ctx context.Context, d RefusedDomain) error {
	normal, name, err := wire.NormalizeURL("http://" + d.Domain + "/")
	if _, ip := netip.ParseAddr(strings.Trim(name, "[]")); err != nil || normal != "http://"+name+"/" || name != withoutPort(name) || ip == nil {
		return assign.Invalid{Err: fmt.Errorf("%q is not a domain, such as example.jp", d.Domain)}
	}
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		_, err := t.Exec(ctx, `INSERT INTO refused_domains (domain, created, by_whom, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			name, db.Millis(time.Now()), d.By, d.Reason)
		if err != nil {
			return err
		}
		hosts, err := db.Column[string](ctx, t, `SELECT name FROM hosts WHERE state <> ? AND name LIKE ?`, Refused, "%"+name+"%")
		if err != nil {
			return err
		}
		return refuseKnown(ctx, t, slices.DeleteFunc(hosts, func(host string) bool { return !within(withoutPort(host), []string{name}) }))
	})
	if err != nil {
		return fmt.Errorf("refuse domain %s: %w", name, err)
	}
	return nil
}

// RestoreDomain is RefuseDomain for a refusal that the database has lost, because it is new or was
// restored from a backup.
func (r *Registry) RestoreDomain(ctx context.Context, domain, reason string) error {
	return r.RefuseDomain(ctx, RefusedDomain{Domain: domain, Reason: reason, By: restored})
}

// restored is who decides where a refusal was lost and is in force again.
const restored = "restored"

// refuseKnown refuses hosts that the database has, and takes them from their robots.
func refuseKnown(ctx context.Context, t *assign.Tx, hosts []string) error {
	for _, host := range hosts {
		if _, err := t.Exec(ctx, `UPDATE hosts SET state = ?, waiting = 0 WHERE name = ?`, Refused, host); err != nil {
			return err
		}
		if err := t.Unassign(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// AllowDomain ends the refusal of a domain. Its refused hosts stay refused until an operator adds
// them. For hosts that robots find from now on, the policy decides.
func (r *Registry) AllowDomain(ctx context.Context, domain string) error {
	if err := db.Change(ctx, r.db, ErrNotRefused, `DELETE FROM refused_domains WHERE domain = ?`, domain); err != nil {
		return fmt.Errorf("allow domain %s: %w", domain, err)
	}
	return nil
}

// RefusedDomains returns the domains that are refused, by name.
func (r *Registry) RefusedDomains(ctx context.Context) ([]RefusedDomain, error) {
	return db.List(ctx, r.db, func(rows *sql.Rows, d *RefusedDomain) error {
		return rows.Scan(&d.Domain, db.At(&d.Since), &d.By, &d.Reason)
	}, `SELECT domain, created, by_whom, reason FROM refused_domains ORDER BY domain`)
}

// refusedNames returns the names of the domains that are refused.
func refusedNames(ctx context.Context, q db.Queryer) ([]string, error) {
	return db.Column[string](ctx, q, `SELECT domain FROM refused_domains`)
}

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
	"sheaf/internal/weburl"
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

// maxPrefixes limits the refused prefixes of one host, since each makes robots' lists longer.
const maxPrefixes = 100

// ErrPrefixNotRefused is AllowPrefix's error for a prefix that is not refused.
var ErrPrefixNotRefused = errors.New("this prefix is not refused; sheaf host prefix ls lists those that are")

// RefusedPrefix is a part of a host that robots leave out: the pages that match a weburl.Prefix.
type RefusedPrefix struct {
	URL    string    `json:"url"` // always http, such as http://www.example.jp/private/
	Since  time.Time `json:"since,omitzero"`
	By     string    `json:"by,omitempty" doc:"who decides"`
	Reason string    `json:"reason" doc:"why"`
}

// prefixOf splits a URL into its host and the path, with query, of the prefix.
func prefixOf(url string) (host, path string, err error) {
	normal, host, err := wire.NormalizeURL(url)
	var p weburl.Prefix
	if err == nil {
		p, err = weburl.ParsePrefix(normal)
	}
	if path = p.Path(); err == nil && len(path) > wire.MaxOmit {
		err = fmt.Errorf("it is longer than %d bytes", wire.MaxOmit)
	}
	if err == nil && path == "/" {
		err = errors.New("it is a whole host; sheaf host rm removes one")
	}
	if err != nil {
		return "", "", assign.Invalid{Err: fmt.Errorf("prefix %.200q: %w", url, err)}
	}
	return host, path, nil
}

// RefusePrefix keeps robots away from a part of a host, even if nobody has found the host yet.
// Robots are told with their next list. It may be called again with the same prefix.
func (r *Registry) RefusePrefix(ctx context.Context, p RefusedPrefix) error {
	host, path, err := prefixOf(p.URL)
	if err != nil {
		return err
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `INSERT INTO refused_prefixes (host, path, created, by_whom, reason) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			host, path, db.Millis(time.Now()), p.By, p.Reason)
		if err != nil || n == 0 {
			return err
		}
		var have int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM refused_prefixes WHERE host = ?`, host).Scan(&have); err != nil {
			return err
		}
		if have > maxPrefixes {
			return assign.Invalid{Err: fmt.Errorf("%s has %d refused prefixes, which is the limit", host, maxPrefixes)}
		}
		return touchRobotsOf(ctx, t, host)
	})
}

// RestorePrefix is RefusePrefix for a refusal that the database has lost; see RestoreDomain.
func (r *Registry) RestorePrefix(ctx context.Context, url, reason string) error {
	return r.RefusePrefix(ctx, RefusedPrefix{URL: url, Reason: reason, By: restored})
}

// AllowPrefix ends the refusal of a prefix. Robots are told with their next list.
func (r *Registry) AllowPrefix(ctx context.Context, url string) error {
	host, path, err := prefixOf(url)
	if err != nil {
		return err
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		none := fmt.Errorf("%.200s: %w", url, ErrPrefixNotRefused)
		if err := db.Change(ctx, t, none, `DELETE FROM refused_prefixes WHERE host = ? AND path = ?`, host, path); err != nil {
			return err
		}
		return touchRobotsOf(ctx, t, host)
	})
}

// touchRobotsOf makes the robots of a host fetch new lists.
func touchRobotsOf(ctx context.Context, t *assign.Tx, host string) error {
	robots, err := assign.RobotsOf(ctx, t, host)
	t.Touch(robots...)
	return err
}

// RefusedPrefixes returns the prefixes that are refused, by host.
func (r *Registry) RefusedPrefixes(ctx context.Context) ([]RefusedPrefix, error) {
	return db.List(ctx, r.db, func(rows *sql.Rows, p *RefusedPrefix) error {
		return rows.Scan(&p.URL, db.At(&p.Since), &p.By, &p.Reason)
	}, `SELECT 'http://' || host || path, created, by_whom, reason FROM refused_prefixes ORDER BY host, path`)
}

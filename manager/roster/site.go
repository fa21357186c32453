package roster

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
)

// ErrLink says that a link leads to no robot's page, or was revoked.
var ErrLink = errors.New("the link is wrong or was revoked; the operators of the archive give out a new one")

// NoteSite stores what a heartbeat says of the robot's site: its contact and its troubles.
func (r *Roster) NoteSite(ctx context.Context, robot string, hb wire.Heartbeat) error {
	link, err := r.link(ctx, robot)
	if err != nil {
		return err
	}
	if hb.Contact != "" && hb.Contact != link.contact {
		if _, err := r.db.ExecContext(ctx, `UPDATE robot_sites SET contact = ? WHERE robot = ?`, hb.Contact, robot); err != nil {
			return fmt.Errorf("robot %s: contact: %w", robot, err)
		}
	}
	if err := r.NoteTroubles(ctx, robot, wire.RobotTroubles(), hb.Troubles); err != nil {
		return err
	}
	return r.NoteTroubles(ctx, robot, []wire.Trouble{wire.TroubleClock}, clockTrouble(hb.Clock))
}

// NoteTroubles stores the troubles that a robot has now, with their details. It covers the given
// kinds only: a stored trouble of one of these kinds that is not in now has ended.
func (r *Roster) NoteTroubles(ctx context.Context, robot string, kinds []wire.Trouble, now map[wire.Trouble]string) error {
	had, err := r.troubles(ctx, `WHERE robot = ?`, robot)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		detail, is := now[kind]
		i := slices.IndexFunc(had, func(t Trouble) bool { return t.Kind == kind })
		at := db.Millis(time.Now())
		switch {
		case is && (i < 0 || had[i].Detail != detail || !had[i].Ended.IsZero()):
			_, err = r.db.ExecContext(ctx, `INSERT INTO robot_troubles (robot, kind, detail, since) VALUES (?, ?, ?, ?)
				ON CONFLICT (robot, kind) DO UPDATE SET detail = excluded.detail, ended = 0`, robot, kind, detail, at)
		case !is && i >= 0 && had[i].Ended.IsZero():
			_, err = r.db.ExecContext(ctx, `UPDATE robot_troubles SET ended = ? WHERE robot = ? AND kind = ? AND ended = 0`, at, robot, kind)
		}
		if err != nil {
			return fmt.Errorf("robot %s: trouble %s: %w", robot, kind, err)
		}
	}
	return nil
}

// Troubles returns the troubles of all robots, by robot and kind, including ended troubles that are
// still to be settled.
func (r *Roster) Troubles(ctx context.Context) ([]Trouble, error) { return r.troubles(ctx, ``) }

// TroublesOf returns the troubles that one robot has now.
func (r *Roster) TroublesOf(ctx context.Context, robot string) ([]Trouble, error) {
	return r.troubles(ctx, `WHERE robot = ? AND ended = 0`, robot)
}

func (r *Roster) troubles(ctx context.Context, where string, args ...any) ([]Trouble, error) {
	list, err := db.List(ctx, r.db, func(rows *sql.Rows, t *Trouble) error {
		return rows.Scan(&t.Robot, &t.Kind, &t.Detail, db.At(&t.Since), db.At(&t.Told), db.At(&t.Ended))
	}, `SELECT robot, kind, detail, since, told, ended FROM robot_troubles `+where+` ORDER BY robot, kind`, args...)
	if err != nil {
		return nil, fmt.Errorf("troubles of robots: %w", err)
	}
	return list, nil
}

// SettleTroubles records that a robot's site is told of new troubles, and deletes ended ones. tell
// puts the mail into the outbox, in the same transaction. It is not called if another process was
// faster.
func (r *Roster) SettleTroubles(ctx context.Context, list []Trouble, tell func(*sql.Tx) error) error {
	return db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		changed := int64(0)
		for _, t := range list {
			query, args := `UPDATE robot_troubles SET told = ? WHERE robot = ? AND kind = ? AND told = 0 AND ended = 0`, []any{db.Millis(time.Now()), t.Robot, t.Kind}
			if !t.Ended.IsZero() {
				query, args = `DELETE FROM robot_troubles WHERE robot = ? AND kind = ? AND ended = ?`, []any{t.Robot, t.Kind, db.Millis(t.Ended)}
			}
			n, err := db.Exec(ctx, tx, query, args...)
			if err != nil {
				return fmt.Errorf("robot %s: trouble %s: %w", t.Robot, t.Kind, err)
			}
			changed += n
		}
		if changed == 0 {
			return nil
		}
		return tell(tx)
	})
}

// site is the contact of a robot's site, and the random part of the link to the robot's page.
type site struct{ contact, link string }

// link returns the robot's site. It makes a link if there is none.
func (r *Roster) link(ctx context.Context, robot string) (s site, err error) {
	read := func() error {
		return r.db.QueryRowContext(ctx, `SELECT contact, link FROM robot_sites WHERE robot = ?`, robot).Scan(&s.contact, &s.link)
	}
	if err = read(); errors.Is(err, sql.ErrNoRows) {
		_, err = r.db.ExecContext(ctx, `INSERT INTO robot_sites (robot, link) SELECT name, ? FROM robots WHERE name = ? ON CONFLICT DO NOTHING`, newLink(), robot)
		if err == nil {
			err = read()
		}
	}
	if err = db.OrNone(err, ErrNoRobot); err != nil {
		return s, fmt.Errorf("robot %s: site: %w", robot, err)
	}
	return s, nil
}

func newLink() string { return strings.ToLower(rand.Text()[:8]) }

// Contact returns the URL or mail address at which a robot's site is told of troubles, or "".
func (r *Roster) Contact(ctx context.Context, robot string) (string, error) {
	s, err := r.link(ctx, robot)
	return s.contact, err
}

// Page returns the path of the page that shows a robot to its site. Whoever has the link can see
// this page, and nothing else.
func (r *Roster) Page(ctx context.Context, robot string) (path string, err error) {
	s, err := r.link(ctx, robot)
	if err != nil {
		return "", err
	}
	links, err := r.links(ctx)
	if err != nil {
		return "", err
	}
	return api.PathRobotPage + robot + "/" + s.link + "/" + links.Sign(robot, s.link), nil
}

// links returns the signer of links to the robots' pages. When the service's key is replaced, links
// become void; the answer to each heartbeat tells the robot its new one.
func (r *Roster) links(ctx context.Context) (*servicekey.LinkSigner, error) {
	key, err := r.opt.Key.Signing(ctx)
	if err != nil {
		return nil, err
	}
	return servicekey.NewLinkSigner(key.Private, "robot page"), nil
}

// RevokePage voids the link to a robot's page. Page then returns a new one.
func (r *Roster) RevokePage(ctx context.Context, robot string) error {
	if _, err := r.link(ctx, robot); err != nil {
		return err
	}
	return r.set(ctx, robot, `UPDATE robot_sites SET link = ? WHERE robot = ?`, newLink())
}

// OpenPage returns nil if link and signature belong to the robot's page, and ErrLink otherwise.
func (r *Roster) OpenPage(ctx context.Context, robot, link, signature string) error {
	links, err := r.links(ctx)
	if err != nil {
		return err
	}
	if !links.Check(signature, robot, link) {
		return ErrLink
	}
	s, err := r.link(ctx, robot)
	if errors.Is(err, ErrNoRobot) || err == nil && s.link != link {
		return ErrLink
	}
	return err
}

// Trouble is one thing that is wrong with a robot.
type Trouble struct {
	Robot  string       `json:"-"`
	Kind   wire.Trouble `json:"kind"`
	Detail string       `json:"detail,omitempty"`
	Since  time.Time    `json:"since,omitzero"` // zero: not known
	Told   time.Time    `json:"-"`              // when its site was told; zero: not yet
	Ended  time.Time    `json:"-"`              // zero: not yet
}

// judge sets Troubles, the gravest first, from the noted troubles and from the robot's row. Pages,
// commands, the API and metrics all show these.
func (r *Robot) judge(noted []Trouble) {
	r.Troubles = nil
	if r.Joined.IsZero() || !r.Revoked.IsZero() {
		return
	}
	r.Troubles = slices.DeleteFunc(slices.Clone(noted), func(t Trouble) bool { return t.Kind == wire.TroubleSilent }) // this one is noted late, for mails to the site only
	add := func(is bool, kind wire.Trouble, since time.Time, detail string) {
		if is {
			r.Troubles = append(r.Troubles, Trouble{Robot: r.Name, Kind: kind, Since: since, Detail: detail})
		}
	}
	if r.Subscribed && !r.Lapsed.IsZero() {
		add(true, wire.TroubleSilent, r.Seen, "its hosts were handed on")
	} else {
		add(!r.silent.IsZero(), wire.TroubleSilent, r.silent, "")
	}
	add(r.keyTrouble != "", wire.TroubleKey, time.Time{}, r.keyTrouble)
	add(r.Behind > 0, wire.TroubleOld, time.Time{}, fmt.Sprintf("it should run release %d", r.Behind))
	order := wire.Troubles()
	slices.SortStableFunc(r.Troubles, func(a, b Trouble) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
}

// Has reports whether the robot has a trouble of the kind.
func (r *Robot) Has(kind wire.Trouble) bool {
	return slices.ContainsFunc(r.Troubles, func(t Trouble) bool { return t.Kind == kind })
}

// clockTrouble returns the trouble of a wrong clock, or nothing if the clock is right.
func clockTrouble(c *wire.Clock) map[wire.Trouble]string {
	switch off := c.Wrong(); {
	case off > 0:
		return map[wire.Trouble]string{wire.TroubleClock: fmt.Sprintf("%v ahead of the service's: its pages bear times that are as much too late", off)}
	case off < 0:
		return map[wire.Trouble]string{wire.TroubleClock: fmt.Sprintf("%v behind the service's: its pages bear times that are as much too early", -off)}
	}
	return nil
}

// noted returns, by robot, the stored troubles that have not ended.
func (r *Roster) noted(ctx context.Context) (map[string][]Trouble, error) {
	list, err := r.troubles(ctx, `WHERE ended = 0`)
	byRobot := make(map[string][]Trouble)
	for _, t := range list {
		byRobot[t.Robot] = append(byRobot[t.Robot], t)
	}
	return byRobot, err
}

// Limits for the kept addresses of robots.
const (
	// AddressesKept is how long a robot's address is kept after its last heartbeat.
	AddressesKept = 90 * 24 * time.Hour

	longSilence   = 20 * time.Minute // between two heartbeats, beyond which the robot may have stopped meanwhile
	nearby        = 5 * time.Minute  // by which a site's clock may differ, and a heartbeat be late
	mostAddresses = 2000             // rows of a robot
)

// NoteAddress notes from which address a heartbeat came, if the robot visits hosts or has stopped
// since its last heartbeat. An idle robot now and then visits pages that consumers watch. The time
// is kept with the precision of seenEvery.
func (r *Roster) NoteAddress(ctx context.Context, robot string, from netip.Addr, hb wire.Heartbeat, now time.Time) error {
	visits := hb.Phase == wire.PhaseCollecting || hb.Phase == wire.PhaseIdle
	if !from.IsValid() {
		return nil
	}
	at, address := db.Millis(now), from.String()
	const current = `robot = ? AND address = ? AND last >= ? AND last <= ? AND (visits = 1 OR ? = 1)`
	of := []any{robot, address, db.Millis(now.Add(-longSilence)), at, visits}
	var last time.Time
	var visited bool
	err := r.db.QueryRowContext(ctx, `SELECT last, visits FROM robot_addresses WHERE `+current+` ORDER BY last DESC LIMIT 1`, of...).Scan(db.At(&last), &visited)
	unknown := errors.Is(err, sql.ErrNoRows)
	if err != nil && !unknown || unknown && !visits || !unknown && visited == visits && now.Sub(last) < seenEvery {
		return wrapped(robot, db.OrNone(err, nil)) // nothing new, and a write would wait for the disk
	}
	n, err := db.Exec(ctx, r.db, `UPDATE robot_addresses SET last = ?, visits = ? WHERE `+current, append([]any{at, visits}, of...)...)
	if err != nil || n > 0 || !visits {
		return wrapped(robot, err)
	}
	every := min(time.Duration(hb.EveryMS)*time.Millisecond, longSilence) // it may have begun just after the last one
	if _, err = r.db.ExecContext(ctx, `INSERT INTO robot_addresses (robot, address, began, last, visits) VALUES (?, ?, ?, ?, 1) ON CONFLICT DO NOTHING`,
		robot, address, db.Millis(now.Add(-every)), at); err != nil {
		return wrapped(robot, err)
	}
	_, err = r.db.ExecContext(ctx, `DELETE FROM robot_addresses WHERE last < ?
		OR robot = ? AND began < (SELECT a.began FROM robot_addresses a WHERE a.robot = ? ORDER BY a.began DESC LIMIT 1 OFFSET ?)`,
		db.Millis(now.Add(-AddressesKept)), robot, robot, mostAddresses-1)
	return wrapped(robot, err)
}

func wrapped(robot string, err error) error {
	if err != nil {
		return fmt.Errorf("robot %s: address: %w", robot, err)
	}
	return nil
}

// VisitedFrom reports whether a robot visited hosts from an address at a time, give or take a few
// minutes.
func (r *Roster) VisitedFrom(ctx context.Context, from netip.Addr, at time.Time) (bool, error) {
	var n int
	err := r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM robot_addresses WHERE address = ? AND began <= ? AND last >= ? LIMIT 1) found`,
		from.String(), db.Millis(at.Add(nearby)), db.Millis(at.Add(-nearby-seenEvery))).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("visits from an address: %w", err)
	}
	return n > 0, nil
}

// Working returns up to limit robots that are subscribed, by name. It sets only their names and
// versions.
func (r *Roster) Working(ctx context.Context, limit int) ([]Robot, error) {
	list, err := db.List(ctx, r.db, func(rows *sql.Rows, r *Robot) error { return rows.Scan(&r.Name, &r.Version) },
		`SELECT name, version FROM robots WHERE subscribed = 1 AND secret_hash IS NOT NULL ORDER BY name LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	return list, nil
}

package roster

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
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

// Package operators keeps the names, passwords and roles of the people who run the service. A Gate
// in front of each path for operators decides who may use the path. Beside the operators in the
// database there is the token of the data directory, which has the role of an admin.
package operators

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/passwords"
)

// Role says what an operator may do. Each role includes the roles before it.
type Role string

const (
	Viewer Role = "viewer"   // sees everything, and changes nothing but the own password
	Worker Role = "operator" // does the daily work: hosts, robots, batches, accounts, take-downs
	Admin  Role = "admin"    // looks after operators, releases and backups, and deletes
)

// Roles returns all roles, the least first.
func Roles() []Role { return []Role{Viewer, Worker, Admin} }

// Includes reports whether a role may do everything that the role least may.
func (r Role) Includes(least Role) bool {
	return slices.Contains(Roles(), least) && slices.Index(Roles(), r) >= slices.Index(Roles(), least)
}

// Operator is one of the people who run the service.
type Operator struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role" doc:"viewer, operator or admin"`
	Suspended bool      `json:"suspended,omitempty"` // cannot log in
	Provider  bool      `json:"provider,omitempty"`  // logs in at the OpenID provider, which also gives the role; has no password
	Created   time.Time `json:"created,omitzero"`
	Seen      time.Time `json:"seen,omitzero"` // last log-in, to the minute; zero: never

	subject string // identifies the person at the OpenID provider
}

// Errors of Store.
var (
	ErrExists      = errors.New("there is an operator of that name already")
	ErrUnknown     = errors.New("no such operator")
	ErrInvalid     = errors.New("operator cannot be as given")
	ErrCredentials = errors.New("wrong operator or password")
	ErrSuspended   = errors.New("the operator is suspended")
)

// ValidName reports whether a name can be an operator's.
func ValidName(name string) bool { return validName.MatchString(name) }

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// seenEvery is the shortest time between two writes of an operator's last log-in.
const seenEvery = time.Minute

// Store keeps operators in the database. Its methods may be called concurrently. When a method
// returns nil, its change is durable, and so is the change's row in the audit log.
type Store struct {
	db      *sql.DB
	checker *passwords.Checker
	Cost    passwords.Cost // of new passwords
	limit   *passwords.Limiter
}

// NewStore returns the Store in a database, whose migrations must have run. cost is the cost of
// hashing new passwords; zero means passwords.DefaultCost. No operator can have the name TokenName.
func NewStore(database *sql.DB, cost passwords.Cost, limit *passwords.Limiter) (*Store, error) {
	cost = cmp.Or(cost, passwords.DefaultCost)
	checker, err := passwords.NewChecker(cost)
	if err != nil {
		return nil, err
	}
	return &Store{db: database, checker: checker, Cost: cost, limit: limit}, nil
}

// OperatorChange has the new values for an operator. Nil fields stay as they are.
type OperatorChange struct {
	Role      *Role   `json:"role,omitempty" doc:"viewer, operator or admin"`
	Suspended *bool   `json:"suspended,omitempty" doc:"keep the operator out; false lets the operator in again"`
	Password  *string `json:"password,omitempty"` // empty: a random one, which the answer has
}

// Add stores a new operator and returns the operator with the password. If password is empty, Add
// makes one. The password cannot be read again later. Its errors are ErrInvalid and ErrExists.
func (s *Store) Add(ctx context.Context, o Operator, password string) (Operator, string, error) {
	if err := s.check(o.Name, o.Role); err != nil {
		return Operator{}, "", err
	}
	password, err := chosen(o.Name, password)
	if err != nil {
		return Operator{}, "", err
	}
	made := Operator{Name: o.Name, Role: o.Role, Suspended: o.Suspended, Created: time.Now().UTC().Truncate(time.Millisecond)}
	hash := s.Cost.Hash(password)
	err = db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		err := db.Change(ctx, tx, ErrExists, `INSERT INTO operators (name, password, role, suspended, created) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			made.Name, hash, string(made.Role), made.Suspended, db.Millis(made.Created))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx)
	})
	if err != nil {
		return Operator{}, "", fmt.Errorf("operator %s: %w", o.Name, err)
	}
	return made, password, nil
}

func (s *Store) check(name string, role Role) error {
	switch {
	case !ValidName(name):
		return fmt.Errorf("%w: name %.100q: want 1 to 63 lower-case letters, digits, dots, hyphens or underscores", ErrInvalid, name)
	case name == TokenName:
		return fmt.Errorf("%w: %s is the name of the token's holder", ErrInvalid, name)
	case !slices.Contains(Roles(), role):
		return fmt.Errorf("%w: role %.100q: want viewer, operator or admin", ErrInvalid, role)
	}
	return nil
}

// chosen checks a password that somebody has chosen and returns it. If it is empty, chosen returns
// a random one.
func chosen(name, password string) (string, error) {
	if password == "" {
		return passwords.New(), nil
	}
	if err := passwords.CheckChosen(name, password); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return password, nil
}

// Change changes an operator and returns the operator's new state and, if changed, the password. A
// new password and a suspension end the operator's sessions. For operators of an OpenID provider it
// can change only the suspension. Its errors are ErrInvalid and ErrUnknown.
func (s *Store) Change(ctx context.Context, name string, c OperatorChange) (now Operator, password string, err error) {
	var role, hash *string
	if c.Role != nil {
		if err := s.check(name, *c.Role); err != nil {
			return Operator{}, "", err
		}
		role = new(string(*c.Role))
	}
	if c.Password != nil {
		if password, err = chosen(name, *c.Password); err != nil {
			return Operator{}, "", err
		}
		hash = new(s.Cost.Hash(password))
	}
	err = db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		var err error // a new variable, as the function may run several times
		now, _, err = scan(tx.QueryRowContext(ctx, `UPDATE operators SET role = COALESCE(?, role), suspended = COALESCE(?, suspended), password = COALESCE(?, password)
			WHERE name = ? RETURNING `+columns, role, c.Suspended, hash, name))
		if err != nil {
			return err
		}
		if now.Provider && (role != nil || hash != nil) {
			return fmt.Errorf("%w: the operator logs in at the OpenID provider, which says the role (login.oidc.rules)", ErrInvalid)
		}
		return audit.Write(ctx, tx)
	})
	if err != nil {
		return Operator{}, "", wrap(name, err)
	}
	return now, password, nil
}

// Remove removes an operator and ends their sessions. It returns ErrUnknown if there is no such
// operator.
func (s *Store) Remove(ctx context.Context, name string) error {
	return wrap(name, db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		if err := db.Change(ctx, tx, ErrUnknown, `DELETE FROM operators WHERE name = ?`, name); err != nil {
			return err
		}
		return audit.Write(ctx, tx)
	}))
}

// List returns all operators by name.
func (s *Store) List(ctx context.Context) ([]Operator, error) {
	list, err := db.List(ctx, s.db, func(rows *sql.Rows, o *Operator) (err error) {
		*o, _, err = scan(rows)
		return err
	}, `SELECT `+columns+` FROM operators ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("operators: %w", err)
	}
	return list, nil
}

// Login returns the operator with these credentials, for a client at an address ("192.0.2.1:7"),
// and the mark by which Resume recognizes their session. It returns ErrCredentials if the name or
// the password is wrong, ErrSuspended if both are right but the operator is suspended, or
// *passwords.TooMany.
func (s *Store) Login(ctx context.Context, name, password, remote string) (o Operator, mark string, err error) {
	o, phc, err := s.load(ctx, name)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Operator{}, "", err
	}
	ok, err := s.checker.Check(ctx, s.limit, passwords.Try{Realm: passwords.Operator, Name: name, Secret: password, Remote: remote}, phc)
	switch {
	case err != nil:
		return Operator{}, "", fmt.Errorf("operator %.100s: %w", name, err)
	case !ok:
		return Operator{}, "", ErrCredentials
	case o.Suspended:
		return Operator{}, "", fmt.Errorf("operator %s: %w", name, ErrSuspended)
	}
	if now := time.Now(); now.Sub(o.Seen) >= seenEvery {
		if _, err := s.db.ExecContext(ctx, `UPDATE operators SET seen = ? WHERE name = ?`, db.Millis(now.Truncate(seenEvery)), name); err != nil {
			return Operator{}, "", fmt.Errorf("operator %s: %w", name, err)
		}
	}
	return o, markOf(o, phc), nil
}

// Resume returns the operator of a session. It returns ErrCredentials if the operator was removed,
// is suspended, or has another password than when the session began.
func (s *Store) Resume(ctx context.Context, name, mark string) (Operator, error) {
	o, phc, err := s.load(ctx, name)
	switch {
	case errors.Is(err, ErrUnknown):
		return Operator{}, ErrCredentials
	case err != nil:
		return Operator{}, err
	case o.Suspended || subtle.ConstantTimeCompare([]byte(markOf(o, phc)), []byte(mark)) != 1:
		return Operator{}, ErrCredentials
	}
	return o, nil
}

// markOf returns the mark of an operator's password, or of the operator's subject at the provider.
// Neither can be derived from the mark.
func markOf(o Operator, phc string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", o.Name, o.Created.UnixMilli(), phc+o.subject))
	return hex.EncodeToString(sum[:16])
}

const columns = "name, role, suspended, created, seen, subject, password"

func (s *Store) load(ctx context.Context, name string) (Operator, string, error) {
	if strings.ContainsRune(name, 0) { // PostgreSQL refuses it
		return Operator{}, "", ErrUnknown
	}
	o, phc, err := scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM operators WHERE name = ?`, strings.ToValidUTF8(name, "\uFFFD")))
	return o, phc, wrap(name, err)
}

func scan(row interface{ Scan(...any) error }) (o Operator, phc string, err error) {
	var role string
	err = row.Scan(&o.Name, &role, &o.Suspended, db.At(&o.Created), db.At(&o.Seen), &o.subject, &phc)
	o.Role, o.Provider = Role(role), o.subject != ""
	return o, phc, err
}

// wrap adds the operator's name to an error, and turns sql.ErrNoRows into ErrUnknown.
func wrap(name string, err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = ErrUnknown
	case err == nil:
		return nil
	}
	return fmt.Errorf("operator %.100s: %w", name, err)
}

// ErrTaken is Admit's error if the name belongs to another operator.
var ErrTaken = errors.New("another operator has that name")

// Admit returns the operator whom an OpenID provider vouches for, and the mark by which Resume
// recognizes their session. role is the role that the provider's claims give now. It applies to
// running sessions, too. Admit stores the operator at the first log-in. subject identifies the
// person for ever, even if the name changes. Admit returns ErrInvalid if the name cannot be an
// operator's, ErrTaken or ErrSuspended.
func (s *Store) Admit(ctx context.Context, subject, name string, role Role) (o Operator, mark string, err error) {
	if subject == "" {
		return Operator{}, "", fmt.Errorf("%w: nobody vouches for %.100q", ErrInvalid, name)
	}
	if err := s.check(name, role); err != nil {
		return Operator{}, "", err
	}
	now := time.Now().UTC()
	err = db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		var suspended bool
		err := tx.QueryRowContext(ctx, `SELECT suspended FROM operators WHERE subject = ?`, subject).Scan(&suspended)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if suspended {
			return ErrSuspended
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM operators WHERE subject = ? AND name <> ?`, subject, name); err != nil { // the same person had another name before
			return err
		}
		var phc string
		o, phc, err = scan(tx.QueryRowContext(ctx, `INSERT INTO operators (name, password, role, created, seen, subject) VALUES (?, '', ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET role = excluded.role, seen = excluded.seen WHERE operators.subject = excluded.subject RETURNING `+columns,
			name, string(role), db.Millis(now), db.Millis(now.Truncate(seenEvery)), subject))
		if errors.Is(err, sql.ErrNoRows) {
			return ErrTaken
		}
		mark = markOf(o, phc)
		return err
	})
	return o, mark, wrap(name, err)
}

// Dismiss removes an operator to whom the OpenID provider gives no role any more, and ends their
// sessions. It reports whether an operator was removed. A suspended operator stays stored and
// suspended.
func (s *Store) Dismiss(ctx context.Context, subject string) (ended bool, err error) {
	if subject == "" {
		return false, nil
	}
	n, err := db.Exec(ctx, s.db, `DELETE FROM operators WHERE subject = ? AND suspended = 0`, subject)
	if err != nil {
		return false, fmt.Errorf("operators: %w", err)
	}
	return n > 0, nil
}

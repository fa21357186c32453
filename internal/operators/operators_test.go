package operators_test

import (
	"errors"
	"log/slog"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

func newStore(t *testing.T) *operators.Store {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	store, err := operators.NewStore(d, passwords.Cost{Memory: 64, Passes: 1}, passwords.NewLimiter(slog.New(slog.DiscardHandler)))
	testkit.Must(t, err)
	return store
}

// An operator logs in with the password that was given, and a session goes on until the password
// changes, or the operator is suspended or removed. Nobody logs in to a name that was removed.
func TestPasswordsAndSessions(t *testing.T) {
	s := newStore(t)
	const from = "192.0.2.1:7"
	made, password, err := s.Add(t.Context(), operators.Operator{Name: "sato", Role: operators.Worker}, "")
	testkit.Must(t, err)
	if _, _, err := s.Add(t.Context(), operators.Operator{Name: "sato", Role: operators.Admin}, ""); !errors.Is(err, operators.ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	for what, o := range map[string]operators.Operator{"the token's name": {Name: "token", Role: operators.Viewer}, "capitals": {Name: "Sato", Role: operators.Viewer}, "no role": {Name: "x"}} {
		if _, _, err := s.Add(t.Context(), o, ""); !errors.Is(err, operators.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	o, mark, err := s.Login(t.Context(), "sato", password, from)
	testkit.Must(t, err)
	if o.Name != made.Name || o.Role != operators.Worker {
		t.Errorf("%+v", o)
	}
	for what, c := range map[string][2]string{"wrong": {"sato", password + "x"}, "empty": {"sato", ""}, "unknown": {"nobody", password}, "zero byte": {"sato\x00", password}} {
		if _, _, err := s.Login(t.Context(), c[0], c[1], from); !errors.Is(err, operators.ErrCredentials) {
			t.Errorf("%s: %v", what, err)
		}
	}
	resumed := func(what, mark string, want error) {
		t.Helper()
		if _, err := s.Resume(t.Context(), "sato", mark); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	change := func(c operators.OperatorChange) string {
		t.Helper()
		_, password, err := s.Change(t.Context(), "sato", c)
		testkit.Must(t, err)
		return password
	}
	change(operators.OperatorChange{Role: new(operators.Viewer)})
	resumed("another role", mark, nil)
	change(operators.OperatorChange{Suspended: new(true)})
	resumed("suspended", mark, operators.ErrCredentials)
	if _, _, err := s.Login(t.Context(), "sato", password, from); !errors.Is(err, operators.ErrSuspended) {
		t.Errorf("suspended: %v", err)
	}
	change(operators.OperatorChange{Suspended: new(false)})
	resumed("let in again", mark, nil)
	password = change(operators.OperatorChange{Password: new("")})
	resumed("another password", mark, operators.ErrCredentials)
	_, mark, err = s.Login(t.Context(), "sato", password, from)
	testkit.Must(t, err)
	testkit.Must(t, s.Remove(t.Context(), "sato"))
	resumed("removed", mark, operators.ErrCredentials)
	if err := s.Remove(t.Context(), "sato"); !errors.Is(err, operators.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
}

// A person whom a provider vouches for keeps one operator, also under another name. Nobody else
// gets that name, and the operator ends with the role.
func TestOperatorsOfAProvider(t *testing.T) {
	s := newStore(t)
	admit := func(subject, name string, want error) (mark string) {
		t.Helper()
		o, mark, err := s.Admit(t.Context(), subject, name, operators.Viewer)
		if !errors.Is(err, want) || err == nil && (o.Name != name || o.Role != operators.Viewer || !o.Provider || o.Seen.IsZero()) {
			t.Errorf("%s as %s: %+v, %v", subject, name, o, err)
		}
		return mark
	}
	_, _, err := s.Add(t.Context(), operators.Operator{Name: "sato", Role: operators.Viewer}, "")
	testkit.Must(t, err)
	first := admit("p 1", "olga", nil)
	if again := admit("p 1", "olga", nil); again != first {
		t.Error("another log-in ends the session before")
	}
	admit("p 2", "olga", operators.ErrTaken)
	admit("p 2", "sato", operators.ErrTaken)
	admit("p 2", "token", operators.ErrInvalid)
	admit("", "anna", operators.ErrInvalid)
	admit("p 1", "olga2", nil)
	if _, err := s.Resume(t.Context(), "olga", first); !errors.Is(err, operators.ErrCredentials) {
		t.Errorf("under the name of before: %v", err)
	}
	admit("p 2", "olga", nil) // it is free now
	if _, err := s.Resume(t.Context(), "olga", first); !errors.Is(err, operators.ErrCredentials) {
		t.Errorf("a session of another person: %v", err)
	}
	_, _, err = s.Change(t.Context(), "olga", operators.OperatorChange{Suspended: new(true)})
	testkit.Must(t, err)
	admit("p 2", "olga", operators.ErrSuspended)
	admit("p 2", "anna", operators.ErrSuspended)
	for subject, want := range map[string]bool{"p 1": true, "p 2": false, "p 3": false, "": false} {
		if ended, err := s.Dismiss(t.Context(), subject); ended != want || err != nil {
			t.Errorf("dismissed %q: %v, %v", subject, ended, err)
		}
	}
	list, err := s.List(t.Context())
	testkit.Must(t, err)
	if len(list) != 2 || list[0].Name != "olga" || list[1].Name != "sato" || list[1].Provider {
		t.Errorf("%+v", list)
	}
}

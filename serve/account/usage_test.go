package account_test

import (
	"errors"
	"net/netip"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/serve/account"
)

// Two processes with one database count an account's bytes together, and a restarted process knows
// the earlier bytes.
func TestQuotaIsOfAllProcesses(t *testing.T) {
	database, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	limits := account.Limits{Quota: 1000}
	fetch := func(m *account.Meter, n int64) error {
		f, err := m.Begin(t.Context(), "alice", netip.Prefix{}, limits)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Take(t.Context(), limits, n)
		return err
	}
	a, b := account.NewMeter(account.Options{DB: database}), account.NewMeter(account.Options{DB: database})
	for _, step := range []struct {
		m *account.Meter
		n int64
	}{{a, 400}, {b, 400}, {a, 150}, {b, 100}} {
		if err := fetch(step.m, step.n); err != nil {
			t.Fatal(err)
		}
		if err := step.m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range map[string]*account.Meter{"the first": a, "the second": b, "a third": account.NewMeter(account.Options{DB: database})} {
		var over *account.QuotaError
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := fetch(m, 1); !errors.As(err, &over) || over.Used != 1050 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if used, err := a.Used(t.Context()); err != nil || used["alice"] != 1050 {
		t.Errorf("%v, %v", used, err)
	}
}

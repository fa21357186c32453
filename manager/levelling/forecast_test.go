package levelling_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// A forecast says what it assumes while nothing was measured, and then goes by logs and paces.
func TestForecastByWhatWasMeasured(t *testing.T) {
	testkit.Slow(t)
	for engine, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			d, err := db.Open(t.Context(), source(t))
			testkit.Must(t, err)
			defer d.Close()
			forecasts(t, d)
		})
	}
}

func forecasts(t *testing.T, d *sql.DB) {
	m := manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir()})
	f, err := m.Levelling.Forecast(t.Context(), 1000, 50_000, 0)
	testkit.Must(t, err)
	// Six hours, 100 transfers at once of 1 s each, and 50 pages of a host at 20 s.
	if f.Measured || f.Robots != 1 || f.Nightly != 6*3600*100 || f.Binds != balance.ByWidth || f.Longest != 50*21_000 || f.LongAddresses != 0 {
		t.Errorf("with nothing measured: %+v", f)
	}

	token, _, err := m.Roster.Admit(t.Context(), "r1")
	testkit.Must(t, err)
	_, err = m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
	testkit.Must(t, err)
	testkit.Must(t, m.Roster.Subscribe(t.Context(), "r1"))
	var lines strings.Builder
	lines.WriteString("# at 2026-11-21T02:00:00Z\n")
	var urls []string
	for n, pages := range []int{10, 10, 10, 370} {
		host := fmt.Sprintf("h%d.test", n)
		urls = append(urls, "http://"+host+"/")
		for range pages {
			fmt.Fprintf(&lines, "\"http://%s/\"100, 20480, 500, \"HTTP/1.1 200 OK\"\n", host)
		}
	}
	_, err = m.Hosts.AddHosts(t.Context(), urls, nil, assign.Replication{})
	testkit.Must(t, err)
	file := bytes.NewBufferString("r1.20261121T090000Z\n")
	z := gzip.NewWriter(file)
	_, err = z.Write([]byte(lines.String()))
	testkit.Must(t, errors.Join(err, z.Close()))
	_, err = m.Costs.SubmitLog(t.Context(), "r1", file)
	testkit.Must(t, err)
	_, err = d.ExecContext(t.Context(), `INSERT INTO paces (robot, gap, width, width_binds, line, line_binds) VALUES ('r1', 20000, 10, 1, 102400, 1)`)
	testkit.Must(t, err)

	// Five pages a second by the line, where the width would allow twenty.
	f, err = m.Levelling.Forecast(t.Context(), 4000, 1_000_000, 10*time.Hour)
	testkit.Must(t, err)
	if !f.Measured || f.Sample != 4 || math.Abs(f.PageKB-20) > 0.01 || math.Abs(f.PageMS-500) > 1 || f.Binds != balance.ByLine ||
		math.Abs(f.Nightly-180_000) > 1000 || f.Robots != 6 {
		t.Errorf("%+v, want 6 robots bound by their lines", f)
	}
	// With 250 pages of a host on the mean, the fourth host has 925. They fit at 20 s; four times
	// as many do not.
	if f.LongAddresses != 0 {
		t.Errorf("%+v, want no long address", f)
	}
	if f, err = m.Levelling.Forecast(t.Context(), 4000, 4_000_000, 10*time.Hour); err != nil || f.LongAddresses != 0.25 || f.Fitting < 9000 || f.Fitting > 9720 {
		t.Errorf("%+v, %v, want one long address of four, which fits at less than 10 s", f, err)
	}
	var invalid assign.Invalid
	if _, err = m.Levelling.Forecast(t.Context(), 10, 1, 0); !errors.As(err, &invalid) {
		t.Errorf("fewer pages than hosts: %v", err)
	}
}

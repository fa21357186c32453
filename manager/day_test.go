package manager_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/levelling"
)

// Two managers on one database make one plan a day between them.
func TestTwoManagersPlanOnceADay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sheaf.db")
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer // slog writes each line under a lock of the handler's
		log := slog.New(slog.NewTextHandler(&told, nil))
		var all []*manager.Manager
		for range 2 {
			d, err := db.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			all = append(all, manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Log: log,
				Balance: levelling.Settings{At: "01:00", Zone: time.UTC}}))
		}
		m := all[0]
		s := partsOf(t, m)
		s.join("r1")
		s.add("http://a.test/", "http://b.test/")
		file := bytes.NewBufferString("r1.1\n")
		z := gzip.NewWriter(file)
		fmt.Fprintf(z, "%s\"http://a.test/\"100, 102400, 1000, \"HTTP/1.1 200 OK\"\n", wire.TimeComment(time.Now()))
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Costs.SubmitLog(t.Context(), "r1", file); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, len(all))
		for _, m := range all {
			go func() { ended <- m.Run(ctx) }()
		}
		const days = 2
		time.Sleep(days * 24 * time.Hour) // from midnight
		stop()
		for range all {
			<-ended
		}
		if n := strings.Count(told.String(), "the day's plan is made"); n != days || strings.Contains(told.String(), "failed") {
			t.Errorf("%d plans in %d days:\n%s", n, days, told.String())
		}
	})
}

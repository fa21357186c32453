package transfers_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/transfers"
)

// book records batches, unless it is made to fail.
type book struct {
	mu      sync.Mutex // guards what follows
	away    bool
	commits int
	names   []string
}

func (b *book) RecordAll(_ context.Context, list []transfers.Transfer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errors.New("away")
	}
	b.commits++
	for _, t := range list {
		b.names = append(b.names, t.Name)
	}
	return nil
}

func (b *book) seen() (commits, notes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits, len(b.names)
}

func (b *book) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func note(t *testing.T, b *transfers.Buffer, from, n int) {
	t.Helper()
	for i := range n {
		if err := b.Record(t.Context(), transfers.Transfer{Name: strconv.Itoa(from + i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// Downloads are written within Delay, many in one commit, and a full batch at once.
func TestBufferWritesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		to := new(book)
		b := transfers.NewBuffer(to, slog.New(slog.DiscardHandler))
		go b.Run(ctx)
		note(t, b, 0, 50)
		time.Sleep(transfers.Delay + time.Millisecond)
		if commits, notes := to.seen(); commits != 1 || notes != 50 {
			t.Errorf("%d notes in %d commits after the delay, want 50 in 1", notes, commits)
		}
		note(t, b, 50, 450)
		synctest.Wait()
		if commits, notes := to.seen(); commits != 3 || notes != 450 {
			t.Errorf("%d notes in %d commits, want the two full batches at once", notes, commits)
		}
		stop()
		synctest.Wait()
		note(t, b, 500, 1) // of a transfer that ended while the service stopped
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if commits, notes := to.seen(); notes != 501 || commits != 4 {
			t.Errorf("%d notes in %d commits at the end, want 501 in 4", notes, commits)
		}
		for i, name := range to.names {
			if name != strconv.Itoa(i) {
				t.Fatalf("note %d is %s: not in order", i, name)
			}
		}
	})
}

// While the database fails, as many downloads wait as there is room for. They are written when it
// works again.
func TestBufferOutlastsTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		to := &book{away: true}
		b := transfers.NewBuffer(to, slog.New(slog.DiscardHandler))
		go b.Run(ctx)
		note(t, b, 0, transfers.Most+100)
		time.Sleep(time.Minute)
		if _, notes := to.seen(); notes != 0 {
			t.Fatal("what is away took notes")
		}
		to.setAway(false)
		time.Sleep(time.Minute)
		if _, notes := to.seen(); notes != transfers.Most {
			t.Errorf("%d notes stand, want the first %d", notes, transfers.Most)
		}
		note(t, b, transfers.Most, 1)
		time.Sleep(2 * transfers.Delay)
		if _, notes := to.seen(); notes != transfers.Most+1 {
			t.Errorf("%d notes stand, want one more", notes)
		}
		stop()
		synctest.Wait()
	})
}

// A batch is in the log as it was recorded.
func TestRecordAll(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	log := transfers.New(d)
	var want []transfers.Transfer
	for i := range 300 {
		want = append(want, transfers.Transfer{
			At: start.Add(time.Duration(i) * time.Millisecond), Direction: transfers.Download, Protocol: "ftp", Who: "jp", Name: strconv.Itoa(i),
			Bytes: int64(i), Took: time.Duration(i) * time.Microsecond, Outcome: transfers.OK, Remote: "192.0.2.1:7", Count: 1,
		})
	}
	if err := errors.Join(log.RecordAll(t.Context(), want), log.RecordAll(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	got, err := log.List(t.Context(), transfers.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(got)
	for i := range got {
		got[i].ID, got[i].At = 0, got[i].At.UTC()
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d transfers are not the %d that were recorded", len(got), len(want))
	}
}

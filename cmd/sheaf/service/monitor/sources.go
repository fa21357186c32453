package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/archive/urlindex"
	"sheaf/ingest"
	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/mailer"
	"sheaf/internal/metrics"
	"sheaf/internal/transfers"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/roster"
	"sheaf/serve/results"
	"sheaf/serve/watch"
	"sheaf/ui/board"
	"sheaf/ui/removal"
)

// age returns how long ago t was, in seconds. It is 0 for the zero time and for times in the
// future.
func age(now, t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t).Seconds(), 0)
}

// asking returns a source that calls ask at each scrape, and tell with the answer.
func asking[T any](name string, ask func(context.Context) (T, error), tell func(*metrics.Out, T)) metrics.Source {
	return metrics.Source{Name: name, Ask: func(ctx context.Context, out *metrics.Out) error {
		v, err := ask(ctx)
		if err == nil {
			tell(out, v)
		}
		return err
	}}
}

// Store gives the counts of a store's operations. They do not include local files that the kernel
// sends to clients.
func Store(usages func() store.Usages) metrics.Source {
	return metrics.Source{Name: "store", Ask: func(_ context.Context, out *metrics.Out) error {
		u := usages()
		for operation, n := range map[string]store.Usage{"put": u.Put, "open": u.Open, "stat": u.Stat, "list": u.List, "delete": u.Delete} {
			out.Counter("store_operations_total", "Operations on the object store, each attempt counted. The reads of an opened object belong to open.", float64(n.Calls), "operation", operation)
			out.Counter("store_failures_total", "Operations that failed with an error other than that an object exists or does not.", float64(n.Failed), "operation", operation)
			out.Counter("store_bytes_total", "Bytes read from the object store or written to it.", float64(n.Bytes), "operation", operation)
			out.Counter("store_duration_seconds_total", "Time spent in operations on the object store.", n.Seconds, "operation", operation)
		}
		return nil
	}}
}

// Disks gives the room on the file systems of directories. The keys name the purpose of each
// directory.
func Disks(dirs map[string]string) metrics.Source {
	return metrics.Source{Name: "disks", Ask: func(_ context.Context, out *metrics.Out) error {
		for what, dir := range dirs {
			room, err := files.RoomOn(dir)
			if err != nil {
				return err
			}
			out.Gauge("disk_size_bytes", "Size of the file system, without what is reserved for root. Several directories may be on one.", float64(room.Bytes), "holds", what)
			out.Gauge("disk_free_bytes", "Free bytes of the file system.", float64(room.Free), "holds", what)
			if room.Files > 0 {
				out.Gauge("disk_files", "Number of files that the file system can hold.", float64(room.Files), "holds", what)
				out.Gauge("disk_free_files", "Number of files that can still be made on the file system.", float64(room.FreeFiles), "holds", what)
			}
		}
		return nil
	}}
}

// Scrub gives the progress and the findings of reading the whole store. copied says that there is a
// second copy.
func Scrub(copied bool, state func(context.Context) (upkeep.Scrub, error)) metrics.Source {
	return asking("scrub", state, func(out *metrics.Out, s upkeep.Scrub) {
		now := time.Now()
		out.Gauge("scrub_ratio", "Part of the store that the round under way has verified.", s.Ratio())
		out.Gauge("scrub_ended_seconds", "Time since the last round through the whole store ended; 0: none has.", age(now, s.Ended))
		out.Counter("scrub_bytes_total", "Bytes of segments that were verified, in the store and in its copy.", float64(s.Bytes))
		out.Counter("scrub_damaged_total", "Segments that were found damaged or missing.", float64(s.Damaged), "in", "store")
		out.Counter("scrub_damaged_total", "Segments that were found damaged or missing.", float64(s.CopyDamaged), "in", "copy")
		out.Counter("scrub_healed_total", "Objects that were replaced by the right ones.", float64(s.Healed))
		out.Gauge("scrub_lost", "Segments that are damaged or missing and could not be healed; at most 1000.", float64(len(s.Lost)))
		out.Gauge("scrub_problems", "Problems that the last comparison of the catalog with the store has found and nothing has healed.", float64(s.Problems))
		if copied {
			out.Gauge("store_copy_age_seconds", "Time since the second copy of the store had everything.", age(now, s.CopySince()))
		}
	})
}

// Backed counts the consumers' reads that needed the copy of the store.
func Backed(b *store.Backed) metrics.Source {
	return metrics.Source{Name: "copy", Ask: func(_ context.Context, out *metrics.Out) error {
		out.Counter("store_copy_reads_total", "Reads of objects in the second copy, as the store's own are missing, unreadable or damaged.", float64(b.Reads()))
		return nil
	}}
}

// Ingest gives the buffers and the quarantine, and whether a publication was missed. schedule is
// the window of publication; nil: always open.
func Ingest(in *ingest.Ingest, schedule *window.Schedule) metrics.Source {
	return asking("ingest", in.Held, func(out *metrics.Out, held []inbox.Buffer) {
		now := time.Now()
		var ready inbox.Buffer
		for _, b := range held {
			state := string(b.State)
			out.Gauge("batches", "Batches whose files are in the buffers, by state. Published ones wait to be deleted.", float64(b.Batches), "state", state)
			out.Gauge("batches_bytes", "Bytes of the batches whose files are in the buffers.", float64(b.Bytes), "state", state)
			out.Gauge("batches_oldest_seconds", "Time since the first of the batches in this state came into it; 0: there is none.", b.Oldest, "state", state)
			if b.State == wire.StatePostSplit {
				ready = b
			}
		}
		since := now.Add(-time.Duration(ready.Oldest * float64(time.Second)))
		out.Gauge("publication_missed", "1 if a batch could have been published in a publish window that is over, and was not.",
			metrics.Truth(ready.Batches > 0 && missed(schedule, since, now)))
		if next, ok := schedule.Next(now); ok {
			out.Gauge("publication_next_seconds", "Time until the publish window opens; 0: it is open.", max(next.Sub(now).Seconds(), 0))
		}
	})
}

// patience is how long a batch may wait for its publication while the window is open.
const patience = time.Hour

// missed reports whether batches that are ready since a time should have been published by now: a
// window has opened and shut since, or has been open for longer than patience.
func missed(schedule *window.Schedule, since, now time.Time) bool {
	opens := since
	if schedule.Open(since) {
		shut := schedule.Until(since)
		if shut.IsZero() { // always open
			return now.Sub(since) > patience
		}
		opens = shut
	}
	opens, ok := schedule.Next(opens)
	if !ok {
		return false // published only by operators' commands
	}
	due := schedule.Until(opens)
	if late := opens.Add(patience); due.IsZero() || late.Before(due) {
		due = late
	}
	return now.After(due)
}

// readLag is the greatest age of the versions of catalog and index that a scrape may see. So a
// scrape rarely has to ask the store.
const readLag = 10 * time.Second

// Catalog gives the figures of the catalog, and how far the index of records by URL lags behind it.
func Catalog(c *catalog.Catalog, index *urlindex.Reader) metrics.Source {
	return metrics.Source{Name: "catalog", Ask: func(ctx context.Context, out *metrics.Out) error {
		s, err := c.PinWithin(ctx, readLag)
		if err != nil {
			return err
		}
		defer s.Release()
		editions, err := s.Editions(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		out.Gauge("catalog_version", "Number of the catalog's newest version.", float64(s.Version()))
		out.Gauge("catalog_editions", "Editions in the catalog.", float64(len(editions)))
		if n := len(editions); n > 0 {
			newest := editions[n-1]
			out.Gauge("catalog_edition_age_seconds", "Time since the newest edition was published.", age(now, newest.Published))
			out.Gauge("catalog_edition_hosts", "Hosts of the newest edition.", float64(newest.Hosts))
			out.Gauge("catalog_edition_records", "Records of the newest edition.", float64(newest.Records))
			out.Gauge("catalog_edition_bytes", "Bytes of the newest edition's segments.", float64(newest.Bytes))
		}
		view, err := index.Current(ctx)
		if err != nil {
			return err
		}
		out.Gauge("index_lag_segments", "Published segments that the index of records by URL does not have yet.", float64(max(s.Last()-view.Through(), 0)))
		out.Gauge("index_records", "Records in the index of records by URL.", float64(view.Records()))
		return nil
	}}
}

// Running gives the transfers that are under way in this process.
func Running(r *transfers.Running) metrics.Source {
	return metrics.Source{Name: "transfers", Ask: func(_ context.Context, out *metrics.Out) error {
		type way struct{ direction, protocol string }
		running := make(map[way]int)
		for _, direction := range []string{transfers.Upload, transfers.Download} {
			for _, protocol := range []string{"http", "ftp"} {
				running[way{direction, protocol}] = 0
			}
		}
		for _, t := range r.List(transfers.Filter{}) {
			running[way{t.Direction, t.Protocol}]++
		}
		for w, n := range running {
			out.Gauge("transfers_running", "Transfers that are under way.", float64(n), "direction", w.direction, "protocol", w.protocol)
		}
		return nil
	}}
}

// Watches gives the numbers of notices to consumers that wait, have failed or were given up.
func Watches(w *watch.Watches) metrics.Source {
	return asking("watches", w.Deliveries, func(out *metrics.Out, list []watch.Deliveries) {
		by := map[string]watch.Deliveries{"mail": {}, "webhook": {}}
		for _, d := range list {
			by[d.Channel] = d
		}
		now := time.Now()
		for channel, d := range by {
			for state, n := range map[string]int64{"waiting": d.Waiting, "failing": d.Failing, "given_up": d.GivenUp} {
				out.Gauge("watch_deliveries", "Notices that are not delivered: that wait to be sent, that failed and will be tried again, and that were given up in the last 30 days.",
					float64(n), "channel", channel, "state", state)
			}
			out.Gauge("watch_overdue_seconds", "Time since the first notice should have been sent.", age(now, d.Due), "channel", channel)
		}
	})
}

// Mails gives the number of undelivered mails.
func Mails(o *mailer.Outbox) metrics.Source {
	return asking("mails", o.Counts, func(out *metrics.Out, c mailer.Counts) {
		for state, n := range map[string]int64{"waiting": c.Waiting, "failing": c.Failing, "given_up": c.GivenUp} {
			out.Gauge("mails", "Mails to owners of sites, partners and accounts that are not delivered: that wait to be sent, that failed and will be tried again, and that were given up in the last 30 days.",
				float64(n), "state", state)
		}
	})
}

// Removals gives the numbers of waiting requests for removal.
func Removals(d *removal.Desk) metrics.Source {
	return asking("removals", d.Waiting, func(out *metrics.Out, w removal.Waiting) {
		for state, n := range map[string]int64{"open": w.Open, "proved": w.Proved, "granted": w.Granted} {
			out.Gauge("removals", "Requests for removal that wait: open for their proof, proved for a decision, granted to be carried out.", float64(n), "state", state)
		}
		out.Gauge("removal_undecided_seconds", "Time since the first request that waits for a decision was proved; 0: none waits.", age(time.Now(), w.Since))
	})
}

// Jobs gives the numbers of consumers' background queries.
func Jobs(j *results.Jobs) metrics.Source {
	return asking("jobs", j.Queues, func(out *metrics.Out, queues []results.Queue) {
		by := map[string]results.Queue{"queued": {}, "running": {}}
		for _, q := range queues {
			by[q.State] = q
		}
		now := time.Now()
		for state, q := range by {
			out.Gauge("jobs", "Consumers' queries in the background.", float64(q.Jobs), "state", state)
			out.Gauge("jobs_oldest_seconds", "Time since the first of them was asked for; 0: there is none.", age(now, q.Oldest), "state", state)
		}
	})
}

const (
	// mostRobots is how many robots have metrics of their own. Silent robots come first.
	mostRobots = 200
	// mostHosts is the number up to which waiting hosts are counted.
	mostHosts = 10_000
)

// robotState says what a robot does, in one word.
func robotState(r *roster.Robot) string {
	switch {
	case r.Joined.IsZero() || !r.Revoked.IsZero() || !r.Subscribed:
		return "out"
	case r.Has(wire.TroubleSilent):
		return "silent"
	case r.Paused:
		return "paused"
	}
	return "working"
}

// Wrong gives the numbers of present failures, by kind.
func Wrong(list func(context.Context) ([]board.Failure, error)) metrics.Source {
	return asking("wrong", list, func(out *metrics.Out, all []board.Failure) {
		count := make(map[string]int)
		for _, f := range all {
			count[f.Kind]++
		}
		for _, kind := range board.Kinds() {
			out.Gauge("wrong", "What is wrong now, as the board and sheaf wrong list it, by kind. Each process tells what it can by its roles.", float64(count[kind]), "kind", kind)
		}
	})
}

// Manager gives the numbers of robots and waiting hosts, and when robots were heard of.
func Manager(m *manager.Manager) metrics.Source {
	return metrics.Source{Name: "manager", Ask: func(ctx context.Context, out *metrics.Out) error {
		robots, err := m.Roster.Summaries(ctx)
		if err != nil {
			return err
		}
		pending, waiting, err := m.Hosts.Count(ctx, mostHosts)
		if err != nil {
			return err
		}
		addRobots(out, robots, time.Now())
		const help = "Hosts that wait for an operator's decision, and accepted ones that wait for a robot. Counted up to 10000."
		out.Gauge("hosts_waiting", help, float64(pending), "for", "decision")
		out.Gauge("hosts_waiting", help, float64(waiting), "for", "robot")
		return nil
	}}
}

// addRobots adds the numbers of robots by state. For up to mostRobots robots that have joined it
// also adds how long ago each was heard of.
func addRobots(out *metrics.Out, robots []roster.Robot, now time.Time) {
	states := map[string]int{"out": 0, "silent": 0, "paused": 0, "working": 0}
	var joined []*roster.Robot
	for i := range robots {
		r := &robots[i]
		states[robotState(r)]++
		if !r.Joined.IsZero() && r.Revoked.IsZero() {
			joined = append(joined, r)
		}
	}
	for state, n := range states {
		out.Gauge("robots", "Robots by state. A robot is silent if its heartbeats stay away, and out if it has not joined, has left or was revoked.", float64(n), "state", state)
	}
	silent := func(r *roster.Robot) int { return int(1 - metrics.Truth(r.Has(wire.TroubleSilent))) }
	slices.SortStableFunc(joined, func(a, b *roster.Robot) int { return cmp.Compare(silent(a), silent(b)) })
	for _, r := range joined[:min(len(joined), mostRobots)] {
		out.Gauge("robot_unheard_seconds", "Time since the robot was last heard of, to the minute. At most 200 robots are told, silent ones first.", age(now, r.Seen), "robot", r.Name)
	}
}

package levelling

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// MaxLog is how large a submitted log may be, in bytes.
const MaxLog = 256 << 20

const (
	maxLogPlain = 2 << 30 // bytes of the inflated log
	maxLogName  = 128     // bytes
	maxAnswer   = 8 << 30 // bytes of one answer; together with maxTook it keeps sums far below the largest int64
	maxTook     = 24 * time.Hour
)

// Plausible reports whether so many bytes can have come in so many ms: at no more than 100 Gbit/s.
// A robot with a higher rate would be given everybody's hosts.
func Plausible(bytes, ms int64) bool { return bytes/(100_000_000_000/8/1000) <= max(ms, 1) }

// logDate matches the rest of a log's name after "<robot>.".
var logDate = regexp.MustCompile(`^[0-9A-Za-z_-]{1,40}$`)

// ErrLogReuse says that another log already has this name.
var ErrLogReuse = errors.New("another log of this name was submitted before; give each log a name of its own")

var errLogName = errors.New(`the first line must be the log's name, "<robot>.<date>", with letters, digits, - and _ in the date`)

// LogReport counts the lines of a log.
type LogReport struct {
	Name     string `json:"name"`
	Lines    int64  `json:"lines"`
	Hosts    int    `json:"hosts"`
	Ignored  int64  `json:"ignored"`  // lines with a host that the robot was never given, or with impossible figures
	Repeated bool   `json:"repeated"` // the log had been submitted before; nothing was counted twice
}

// SubmitLog takes a robot's log (P3). It keeps the file as logs/<name>.gz and adds the log's costs
// to the costs of the robot's hosts; it does both or neither. Submitting the same log again changes
// nothing. An error in the log itself is an assign.Invalid.
func (b *Book) SubmitLog(ctx context.Context, robot string, r io.Reader) (report LogReport, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if report.Name, err = readLogName(in, robot); err != nil {
		return report, err
	}
	if err := b.submit(ctx, robot, in, &report); err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	return report, nil
}

// submit reads the log into a temporary file, enters the log and its costs into the database, and
// renames the file.
func (b *Book) submit(ctx context.Context, robot string, in io.Reader, report *LogReport) error {
	dir := filepath.Join(b.dir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	spool, err := os.CreateTemp(dir, "."+report.Name+".*.part")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name()) // fails if the file was renamed
	defer spool.Close()
	digest := sha256.New()
	costs, err := report.sum(io.TeeReader(in, io.MultiWriter(spool, digest)), time.Now(), func(hosts []string) (map[string]bool, error) { return b.own(ctx, robot, hosts) })
	if err != nil {
		return err
	}
	if err := spool.Sync(); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	return db.Transact(ctx, b.db, nil, func(tx *sql.Tx) error {
		report.Repeated, err = noteLog(ctx, tx, robot, *report, digest.Sum(nil), size)
		if err != nil || report.Repeated {
			return err
		}
		if err := addCosts(ctx, tx, robot, costs, b.zone); err != nil {
			return err
		}
		// If the process crashes before the commit, the robot's next attempt replaces this file.
		return files.Rename(spool.Name(), filepath.Join(dir, report.Name+".gz"))
	})
}

func readLogName(in *bufio.Reader, robot string) (string, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF):
		return "", assign.Invalid{Err: errLogName}
	case err != nil:
		return "", assign.Invalid{Err: fmt.Errorf("first line: %w", err)}
	}
	name := string(bytes.TrimRight(line, "\r\n"))
	date, ok := strings.CutPrefix(name, robot+".")
	if !ok || len(name) > maxLogName || !logDate.MatchString(date) {
		return "", assign.Invalid{Err: fmt.Errorf("%w; this one says %.150q and the robot is %s", errLogName, name, robot)}
	}
	return name, nil
}

// maxStrange is how many hosts a log may have that its robot was never given.
const maxStrange = 10_000

// own returns which of the hosts the robot was ever given or asked to probe.
func (b *Book) own(ctx context.Context, robot string, hosts []string) (map[string]bool, error) {
	in := db.Tuple(len(hosts))
	args := append([]any{robot}, db.Args(hosts)...)
	return db.Set[string](ctx, b.db, `SELECT host FROM assignments WHERE robot = ? AND host IN `+in+`
		UNION SELECT host FROM probes WHERE robot = ? AND host IN `+in, slices.Concat(args, args)...)
}

// sum reads the compressed lines and adds them up by host and hour. It counts only the hosts that
// own returns.
func (report *LogReport) sum(r io.Reader, received time.Time, own func([]string) (map[string]bool, error)) (map[string]Samples, error) {
	costs, strange := map[string]Samples{}, map[string]bool{}
	var unsure []string
	sort := func() error {
		if len(unsure) == 0 {
			return nil
		}
		mine, err := own(unsure)
		if err != nil {
			return err
		}
		for _, host := range unsure {
			if mine[host] {
				continue
			}
			for _, s := range costs[host] {
				report.Ignored += s.Requests
			}
			delete(costs, host)
			strange[host] = true
		}
		unsure = unsure[:0]
		if len(strange) > maxStrange {
			return assign.Invalid{Err: fmt.Errorf("it has more than %d hosts that the robot was never given", maxStrange)}
		}
		return nil
	}
	for l, err := range wire.ReadLogLines(r, maxLogPlain) {
		if err != nil {
			return nil, assign.Invalid{Err: err}
		}
		report.Lines++
		_, host, err := wire.NormalizeURL(l.URL)
		if err != nil || l.Got > maxAnswer || l.Took > maxTook || !Plausible(l.Got, l.Took.Milliseconds()) {
			report.Ignored++
			continue
		}
		if strange[host] {
			report.Ignored++
			continue
		}
		if costs[host] == nil {
			if unsure = append(unsure, host); len(unsure) == db.RowsAtOnce/2 {
				if err := sort(); err != nil {
					return nil, err
				}
			}
		}
		costs[host] = costs[host].Add(Sample{hourOf(l, received), 1, l.Got, l.Took.Milliseconds()})
	}
	if err := sort(); err != nil {
		return nil, err
	}
	report.Hosts = len(costs)
	return costs, nil
}

// hourOf returns the hour of a line's request. It takes the time in the log, or else the answer's
// Date header. If neither is there or plausible, it takes the time at which the log was received.
func hourOf(l wire.LogLine, received time.Time) int64 {
	at := l.At
	if at.IsZero() {
		if _, fields, ok := strings.Cut(l.Header, "\r\n"); ok {
			for line := range strings.SplitSeq(fields, "\r\n") {
				if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Date") {
					at, _ = http.ParseTime(strings.TrimSpace(value)) // the zero time if it is no date
				}
			}
		}
	}
	if at.After(received.Add(time.Hour)) || at.Before(received.AddDate(0, 0, -14)) {
		at = received
	}
	return at.Unix() / 3600
}

// noteLog enters a log. repeated reports that the same log was entered before.
func noteLog(ctx context.Context, tx *sql.Tx, robot string, report LogReport, digest []byte, size int64) (repeated bool, err error) {
	var before []byte
	err = tx.QueryRowContext(ctx, `SELECT sha256 FROM logs WHERE robot = ? AND name = ?`, robot, report.Name).Scan(&before)
	switch {
	case err == nil && bytes.Equal(before, digest):
		return true, nil
	case err == nil:
		return false, ErrLogReuse
	case !errors.Is(err, sql.ErrNoRows):
		return false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO logs (robot, name, sha256, bytes, lines, received) VALUES (?, ?, ?, ?, ?, ?)`,
		robot, report.Name, digest, size, report.Lines, db.Millis(time.Now()))
	return false, err
}

// addCosts adds a log's costs to the hosts' costs at the robot and to the robot's rates.
func addCosts(ctx context.Context, tx *sql.Tx, robot string, costs map[string]Samples, zone *time.Location) error {
	now := db.Millis(time.Now())
	week := map[int]Sample{}
	for hosts := range slices.Chunk(slices.Sorted(maps.Keys(costs)), db.RowsAtOnce) {
		had, err := samplesOf(ctx, tx, robot, hosts)
		if err != nil {
			return err
		}
		var rows [][]any
		for _, host := range hosts {
			all := had[host]
			var sum Sample
			for _, s := range costs[host] {
				all = all.Add(s)
				sum.count(s)
				hour := hourOfWeek(time.Unix(s.Hour*3600, 0).In(zone))
				w := week[hour]
				w.count(s)
				week[hour] = w
			}
			rows = append(rows, []any{robot, host, sum.Requests, sum.Bytes, sum.MS, now, all.blob()})
		}
		err = db.Insert(ctx, tx, `INSERT INTO costs (robot, host, requests, bytes, ms, updated, samples)`, rows, `
			ON CONFLICT (robot, host) DO UPDATE SET requests = costs.requests + excluded.requests, bytes = costs.bytes + excluded.bytes,
				ms = costs.ms + excluded.ms, updated = excluded.updated, samples = excluded.samples`)
		if err != nil {
			return err
		}
	}
	for hour, s := range week {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO rates (robot, hour, requests, bytes, ms) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (robot, hour) DO UPDATE SET requests = rates.requests + excluded.requests,
				bytes = rates.bytes + excluded.bytes, ms = rates.ms + excluded.ms`,
			robot, hour, s.Requests, s.Bytes, s.MS)
		if err != nil {
			return err
		}
	}
	return nil
}

// samplesOf returns the stored samples of hosts at a robot, by host.
func samplesOf(ctx context.Context, tx *sql.Tx, robot string, hosts []string) (map[string]Samples, error) {
	had := map[string]Samples{}
	err := ReadLog(ctx, tx, `t.robot = ? AND t.host IN `+db.Tuple(len(hosts)), append([]any{robot}, db.Args(hosts)...),
		func(_, host string, list Samples) { had[host] = list })
	return had, err
}

// Handed is a log that a robot has submitted.
type Handed struct {
	At       time.Time // when it arrived
	Requests int64     // requests that the robot made: the lines of the log
}

// Handed returns the logs that a robot has submitted since a time, the oldest first.
func (b *Book) Handed(ctx context.Context, robot string, since time.Time) ([]Handed, error) {
	return db.List(ctx, b.db, func(rows *sql.Rows, h *Handed) error { return rows.Scan(db.At(&h.At), &h.Requests) },
		`SELECT received, lines FROM logs WHERE robot = ? AND received >= ? ORDER BY received`, robot, db.Millis(since))
}

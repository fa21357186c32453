package manager

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
	"sheaf/internal/wire"
)

const (
	maxLog      = 256 << 20 // bytes of a submitted log
	maxLogPlain = 2 << 30   // bytes that it may inflate to
	maxLogName  = 128
	maxAnswer   = 8 << 30 // bytes of one answer; with maxTook, sums stay far from an int64's end
	maxTook     = 24 * time.Hour
)

// logDate is what follows "<robot>." in a log's name.
var logDate = regexp.MustCompile(`^[0-9A-Za-z_-]{1,40}$`)

var (
	errLogName  = errors.New(`the first line must be the log's name, "<robot>.<date>", with letters, digits, - and _ in the date`)
	errLogReuse = errors.New("another log of this name was submitted before; a name is used once")
)

// badLog is a log's own fault, not the service's.
type badLog struct{ error }

func (b badLog) Unwrap() error { return b.error }

// LogReport counts what was taken from a log.
type LogReport struct {
	Name     string `json:"name"`
	Lines    int64  `json:"lines"`
	Hosts    int    `json:"hosts"`
	Ignored  int64  `json:"ignored"`  // lines whose URL names no host, or with impossible figures
	Repeated bool   `json:"repeated"` // it had been submitted before; nothing was counted twice
}

// hourly is what a log's hosts cost, by host and hour.
type hourly map[string]samples

// SubmitLog takes a log (P3) from r: it keeps the file as Dir/logs/<name>.gz and adds
// what each host cost the robot. Both happen, or neither; the same log again changes nothing.
func (m *Manager) SubmitLog(ctx context.Context, robot string, r io.Reader) (report LogReport, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if report.Name, err = readLogName(in, robot); err != nil {
		return report, err
	}
	dir := filepath.Join(m.opt.Dir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	spool, err := os.CreateTemp(dir, "."+report.Name+".*.part")
	if err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	defer os.Remove(spool.Name()) // is gone already where the log was taken
	defer spool.Close()

	digest := sha256.New()
	costs, err := report.sum(io.TeeReader(in, io.MultiWriter(spool, digest)), time.Now())
	if err != nil {
		return report, err
	}
	if err := spool.Sync(); err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	err = m.transact(ctx, nil, func(tx *sql.Tx) error {
		report.Repeated, err = noteLog(ctx, tx, robot, report, digest.Sum(nil), size)
		if err != nil || report.Repeated {
			return err
		}
		if err := addCosts(ctx, tx, robot, costs, m.opt.Balance.Zone); err != nil {
			return err
		}
		// A crash between here and the commit leaves a file that the robot's next attempt replaces.
		return place(spool.Name(), filepath.Join(dir, report.Name+".gz"))
	})
	if err != nil {
		return report, fmt.Errorf("log %s: %w", report.Name, err)
	}
	return report, nil
}

func readLogName(in *bufio.Reader, robot string) (string, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF):
		return "", badLog{errLogName}
	case err != nil:
		return "", badLog{fmt.Errorf("first line: %w", err)}
	}
	name := string(bytes.TrimRight(line, "\r\n"))
	date, ok := strings.CutPrefix(name, robot+".")
	if !ok || len(name) > maxLogName || !logDate.MatchString(date) {
		return "", badLog{fmt.Errorf("%w; this one says %.150q and the robot is %s", errLogName, name, robot)}
	}
	return name, nil
}

// sum reads the gzip'd lines and adds them up by host and hour.
func (report *LogReport) sum(r io.Reader, received time.Time) (hourly, error) {
	costs := hourly{}
	for l, err := range wire.ReadLogLines(r, maxLogPlain) {
		if err != nil {
			return nil, badLog{err}
		}
		report.Lines++
		_, host, err := wire.NormalizeURL(l.URL)
		if err != nil || l.Got > maxAnswer || l.Took > maxTook {
			report.Ignored++
			continue
		}
		costs[host] = costs[host].add(sample{hourOf(l, received), 1, l.Got, l.Took.Milliseconds()})
	}
	report.Hosts = len(costs)
	return costs, nil
}

// hourOf gives the hour in which a line came: by the log's own word, else by the server's
// clock, which its Date header tells, as far as it is to be believed, else that of the submission.
func hourOf(l wire.LogLine, received time.Time) int64 {
	at := l.At
	if at.IsZero() {
		if _, fields, ok := strings.Cut(l.Header, "\r\n"); ok {
			for line := range strings.SplitSeq(fields, "\r\n") {
				if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Date") {
					at, _ = http.ParseTime(strings.TrimSpace(value)) // the zero time where it is none
				}
			}
		}
	}
	if at.After(received.Add(time.Hour)) || at.Before(received.AddDate(0, 0, -14)) {
		at = received
	}
	return at.Unix() / 3600
}

// noteLog enters the log, or reports that the very same one is entered already.
func noteLog(ctx context.Context, tx *sql.Tx, robot string, report LogReport, digest []byte, size int64) (repeated bool, err error) {
	var before []byte
	err = tx.QueryRowContext(ctx, `SELECT sha256 FROM logs WHERE robot = ? AND name = ?`, robot, report.Name).Scan(&before)
	switch {
	case err == nil && bytes.Equal(before, digest):
		return true, nil
	case err == nil:
		return false, errLogReuse
	case !errors.Is(err, sql.ErrNoRows):
		return false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO logs (robot, name, sha256, bytes, lines, received) VALUES (?, ?, ?, ?, ?, ?)`,
		robot, report.Name, digest, size, report.Lines, db.Millis(time.Now()))
	return false, err
}

// addCosts adds a log's costs to what is known of the hosts at the robot, and to the robot's rates.
func addCosts(ctx context.Context, tx *sql.Tx, robot string, costs hourly, zone *time.Location) error {
	now := db.Millis(time.Now())
	week := map[int]sample{}
	for hosts := range slices.Chunk(slices.Sorted(maps.Keys(costs)), rowsAtOnce) {
		had, err := samplesOf(ctx, tx, robot, hosts)
		if err != nil {
			return err
		}
		var rows []any
		for _, host := range hosts {
			all := had[host]
			var sum sample
			for _, s := range costs[host] {
				all = all.add(s)
				sum.count(s)
				hour := weekHour(s.hour, zone)
				w := week[hour]
				w.count(s)
				week[hour] = w
			}
			rows = append(rows, robot, host, sum.requests, sum.bytes, sum.ms, now, all.blob())
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO costs (robot, host, requests, bytes, ms, updated, samples) VALUES `+tuples(len(hosts), 7)+`
			ON CONFLICT (robot, host) DO UPDATE SET requests = costs.requests + excluded.requests, bytes = costs.bytes + excluded.bytes,
				ms = costs.ms + excluded.ms, updated = excluded.updated, samples = excluded.samples`, rows...)
		if err != nil {
			return err
		}
	}
	for hour, s := range week {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO rates (robot, hour, requests, bytes, ms) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (robot, hour) DO UPDATE SET requests = rates.requests + excluded.requests,
				bytes = rates.bytes + excluded.bytes, ms = rates.ms + excluded.ms`,
			robot, hour, s.requests, s.bytes, s.ms)
		if err != nil {
			return err
		}
	}
	return nil
}

// samplesOf gives what hosts have cost a robot, of those that have.
func samplesOf(ctx context.Context, tx *sql.Tx, robot string, hosts []string) (map[string]samples, error) {
	rows, err := tx.QueryContext(ctx, `SELECT host, samples FROM costs WHERE robot = ? AND host IN `+tuple(len(hosts)), append([]any{robot}, anys(hosts)...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	had := map[string]samples{}
	for rows.Next() {
		var host string
		var blob []byte
		if err := rows.Scan(&host, &blob); err != nil {
			return nil, err
		}
		if had[host], err = parseSamples(blob); err != nil {
			return nil, fmt.Errorf("host %s: %w", host, err)
		}
	}
	return had, rows.Err()
}

// place gives the file its name and makes the name durable.
func place(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

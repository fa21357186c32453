package results

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/loop"
	"sheaf/serve/account"
	"sheaf/serve/records"
)

const (
	look       = 2 * time.Second // interval of looking for work
	beat       = 2 * time.Second // interval at which a worker reports its progress
	deadAfter  = 2 * time.Minute // a worker that has not reported for so long is considered dead
	sweepEvery = 10 * time.Minute
	orphanAge  = 24 * time.Hour // age at which an object without a job is deleted
	maxDeaths  = 3              // number of workers of a job that may die before it is given up, as it may have killed them
)

// errCancelled says that the job was deleted, or that another worker has it.
var errCancelled = errors.New("job was cancelled, or taken up by another")

// Run works on jobs, one at a time, and deletes old ones, until ctx ends.
func (j *Jobs) Run(ctx context.Context) error {
	swept := time.Now()
	for more := true; more; more = loop.Wait(ctx, look, j.wake) {
		for j.next(ctx) {
		}
		if now := time.Now(); now.Sub(swept) >= sweepEvery {
			if err := j.sweep(ctx, now); err != nil && ctx.Err() == nil {
				j.log.ErrorContext(ctx, "old jobs not deleted", "err", err)
			}
			swept = now
		}
	}
	return nil
}

// next works on one job, if any is free. It reports whether to look for another job at once.
func (j *Jobs) next(ctx context.Context) bool {
	job, err := j.claim(ctx, time.Now())
	if err != nil || job == nil {
		if err != nil && ctx.Err() == nil {
			j.log.ErrorContext(ctx, "jobs not read", "err", err)
		}
		return false
	}
	err = j.work(ctx, job)
	switch {
	case err == nil:
	case errors.Is(err, errCancelled):
		j.log.InfoContext(ctx, "job cancelled", "job", job.ID, "account", job.Account)
	case ctx.Err() != nil:
		j.giveBack(context.WithoutCancel(ctx), job)
		return false
	default:
		j.log.ErrorContext(ctx, "job failed", "job", job.ID, "account", job.Account, "err", err)
		j.fail(ctx, job, err)
	}
	return true
}

// claim takes the oldest job that no living worker has, or returns nil. It gives up a job after
// maxDeaths.
func (j *Jobs) claim(ctx context.Context, now time.Time) (*Job, error) {
	const free = `(state = 'queued' OR state = 'running' AND beat < ?)`
	dead := db.Millis(now.Add(-deadAfter))
	for {
		job, err := scan(j.db.QueryRowContext(ctx, `SELECT `+columns+` FROM jobs WHERE `+free+` ORDER BY created, id LIMIT 1`, dead))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		deaths := deathsOf(job.worker)
		if job.State == api.JobRunning {
			deaths++
		}
		if deaths >= maxDeaths {
			if _, err := j.set(ctx, `state = 'failed', finished = ?, problem = ? WHERE id = ? AND worker = ? AND `+free,
				db.Millis(now), fmt.Sprintf("the service died %d times while it worked on this; ask for less", deaths), job.ID, job.worker, dead); err != nil {
				return nil, err
			}
			j.log.ErrorContext(ctx, "job given up", "job", job.ID, "account", job.Account, "attempts", deaths)
			continue
		}
		attempt := fmt.Sprintf("%d.%s", deaths, strings.ToLower(rand.Text()))
		changed, err := j.set(ctx, `state = 'running', worker = ?, beat = ?, scanned = 0, records = 0, bytes = 0
			WHERE id = ? AND worker = ? AND `+free, attempt, db.Millis(now), job.ID, job.worker, dead)
		if err != nil {
			return nil, err
		}
		if changed {
			job.worker = attempt
			return job, nil
		}
	}
}

// deathsOf returns how many workers of the job have died. A worker's name has that number and a
// random part.
func deathsOf(worker string) int {
	n, _, ok := strings.Cut(worker, ".")
	if deaths, err := strconv.Atoi(n); ok && err == nil {
		return deaths
	}
	return 0
}

// set updates a job's row, and reports whether there was one.
func (j *Jobs) set(ctx context.Context, change string, args ...any) (bool, error) {
	n, err := db.Exec(ctx, j.db, `UPDATE jobs SET `+change, args...)
	return n > 0, err
}

// own updates a job's row if the job is still this worker's, or else returns errCancelled.
func (j *Jobs) own(ctx context.Context, job *Job, change string, args ...any) error {
	ok, err := j.set(ctx, change+` WHERE id = ? AND worker = ? AND state = 'running'`, append(args, job.ID, job.worker)...)
	if err == nil && !ok {
		return errCancelled
	}
	return err
}

func (j *Jobs) work(ctx context.Context, job *Job) error {
	account, err := j.accounts.Account(ctx, job.Account)
	if err != nil {
		return err
	}
	q, err := j.parse(ctx, job)
	if err != nil {
		return err
	}
	p := &progress{jobs: j, job: job, said: time.Now()}
	var made File
	if TableIsOfRecords(job.Form) {
		made, err = j.tabulate(ctx, account, q, p)
	} else {
		made, err = j.gather(ctx, account, q, p)
	}
	if err != nil {
		return err
	}
	var stored bytes.Buffer
	if err := made.Save(&stored); err != nil {
		return err
	}
	if err := j.store.Put(ctx, resultKey(job.ID, job.worker), &stored, int64(stored.Len())); err != nil {
		return err
	}
	err = j.own(ctx, job, `state = 'done', finished = ?, scanned = ?, records = ?, bytes = ?`,
		db.Millis(time.Now()), max(p.looked, p.records), made.Records(), made.Size())
	switch {
	case errors.Is(err, errCancelled):
		return errors.Join(err, j.store.Delete(ctx, resultKey(job.ID, job.worker)), j.store.Delete(ctx, tableKey(job.ID, job.worker)))
	case err == nil:
		j.tidy(ctx, job)
	}
	return err
}

// gather puts the records that a query finds together as a bundle.
func (j *Jobs) gather(ctx context.Context, a *account.Account, q *records.Query, p *progress) (File, error) {
	to, err := j.files.NewBundle(ctx, a, p.job.Form)
	if err != nil {
		return nil, err
	}
	p.size = to.Size
	if _, err := Gather(ctx, q, j.records, a, to, p.job.Form, p.budget(ctx), p.found); err != nil {
		return nil, err
	}
	return to.Finish(ctx)
}

// tabulate makes a table of the records that a query finds, and stores its bytes.
func (j *Jobs) tabulate(ctx context.Context, a *account.Account, q *records.Query, p *progress) (File, error) {
	table, err := j.files.Make(ctx, a, p.job.Form, OfBodies, func(to TableSink) error {
		p.size = to.Size
		_, err := Tabulate(ctx, q, j.records, a, to, p.budget(ctx), p.found)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := table.Content(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := account.Reader(ctx, r, table.Size(), func(ctx context.Context, n int64) (int64, error) { return n, p.tell(ctx, p.looked) })
	return table, j.store.Put(ctx, tableKey(p.job.ID, p.job.worker), body, table.Size())
}

// progress is how far the work on a job is.
type progress struct {
	jobs            *Jobs
	job             *Job
	records, looked int64        // records found, and looked at
	size            func() int64 // of the file so far
	said            time.Time    // when it was last told
}

func (p *progress) found() { p.records++ }

func (p *progress) budget(ctx context.Context) records.Budget {
	return records.Budget{Progress: func(looked int64) error { return p.tell(ctx, looked) }}
}

// tell writes the progress into the job's row, if that has not been done just now.
func (p *progress) tell(ctx context.Context, looked int64) error {
	if p.looked = looked; time.Since(p.said) < beat {
		return nil
	}
	p.said = time.Now()
	return p.jobs.own(ctx, p.job, `beat = ?, scanned = ?, records = ?, bytes = ?`, db.Millis(p.said), looked, p.records, p.size())
}

// tidy deletes what failed attempts have left of a finished job.
func (j *Jobs) tidy(ctx context.Context, job *Job) {
	for object, err := range j.store.List(ctx, JobPrefix+job.ID+"/", "") {
		if err == nil && object.Key != listKey(job.ID) && object.Key != resultKey(job.ID, job.worker) && object.Key != tableKey(job.ID, job.worker) {
			err = j.store.Delete(ctx, object.Key)
		}
		if err != nil {
			j.log.ErrorContext(ctx, "result of a failed attempt not deleted; it will be with the job", "job", job.ID, "err", err)
			return
		}
	}
}

// giveBack lets another worker take the job at once.
func (j *Jobs) giveBack(ctx context.Context, job *Job) {
	if err := j.own(ctx, job, `state = 'queued'`); err != nil && !errors.Is(err, errCancelled) {
		j.log.ErrorContext(ctx, "job not released; another worker takes it in a few minutes", "job", job.ID, "err", err)
	}
}

// fail ends a job. The account learns the cause only if it is due to the query.
func (j *Jobs) fail(ctx context.Context, job *Job, cause error) {
	text := "the service failed; its log says why. Ask again later."
	var parameter *records.ParamError
	switch {
	case errors.As(cause, &parameter):
		text = parameter.Error()
	case errors.Is(cause, records.ErrCursorExpired), errors.Is(cause, account.ErrNoAccount):
		text = cause.Error()
	}
	if err := j.own(ctx, job, `state = 'failed', finished = ?, problem = ?`, db.Millis(time.Now()), text); err != nil && !errors.Is(err, errCancelled) {
		j.log.ErrorContext(ctx, "job's failure not recorded", "job", job.ID, "err", err)
	}
}

// sweep deletes old jobs, and objects that belong to no job.
func (j *Jobs) sweep(ctx context.Context, now time.Time) error {
	old, err := db.Column[string](ctx, j.db, `SELECT id FROM jobs WHERE state IN ('done', 'failed') AND finished < ?`, db.Millis(now.Add(-KeepJobs)))
	if err != nil {
		return err
	}
	for _, id := range old {
		if err := j.forget(ctx, id); err != nil {
			return err
		}
	}
	return j.sweepOrphans(ctx, now)
}

func (j *Jobs) sweepOrphans(ctx context.Context, now time.Time) error {
	for object, err := range j.store.List(ctx, JobPrefix, "") {
		if err != nil {
			return err
		}
		if now.Sub(object.Modified) < orphanAge {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(object.Key, JobPrefix), "/")
		var n int
		if err := j.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM jobs WHERE id = ?`, id).Scan(&n); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		if n == 0 {
			if err := j.store.Delete(ctx, object.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

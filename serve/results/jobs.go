package results

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// Errors that callers distinguish.
var (
	ErrNoJob       = errors.New("no such job of this account, or not any more")
	ErrTooManyJobs = fmt.Errorf("this account has %d jobs that are not finished; wait for one, or cancel one", maxOpenJobs)
	ErrNotDone     = errors.New("the job is not done")
)

const (
	maxOpenJobs = 4 // limit for an account's unfinished jobs

	// KeepJobs is how long a finished job and its result are kept. Segments that expire meanwhile
	// are kept as long.
	KeepJobs = 12 * time.Hour
)

// Job is a query in the background.
type Job struct {
	ID       string
	Account  string
	Form     string // of the file, such as ".warc.gz", or the name of a table
	Query    string // the parameters, in the form of a URL's query
	State    api.JobState
	Created  time.Time
	Finished time.Time // zero: not finished
	Scanned  int64     // records searched
	Records  int64     // records found
	Bytes    int64     // size of the file so far, in bytes
	Problem  string    // reason for a failure

	list   bool
	worker string
}

// Expires returns the time when a finished job is deleted.
func (j *Job) Expires() time.Time { return j.Finished.Add(KeepJobs) }

// Jobs stores jobs and works on them. Its methods may be called concurrently.
type Jobs struct {
	db       *sql.DB
	store    store.Store
	records  *records.Records
	files    *Files
	accounts *account.Accounts
	log      *slog.Logger
	wake     chan struct{}
}

// NewJobs returns the jobs in a database. The database's migrations must have run.
func NewJobs(database *sql.DB, st store.Store, from *records.Records, files *Files, accounts *account.Accounts, log *slog.Logger) *Jobs {
	return &Jobs{db: database, store: st, records: from, files: files, accounts: accounts, log: log, wake: make(chan struct{}, 1)}
}

// JobPrefix begins the keys of all objects of jobs.
const JobPrefix = "jobs/"

func listKey(id string) string            { return JobPrefix + id + "/list" }
func resultKey(id, attempt string) string { return JobPrefix + id + "/" + attempt }
func tableKey(id, attempt string) string  { return resultKey(id, attempt) + ".table" }

// Create adds a query to the queue. list is the body with its targets; nil if the parameters name
// them. records.ParseQuery must have accepted the query.
func (j *Jobs) Create(ctx context.Context, account, form, parameters string, list []byte) (*Job, error) {
	var open int
	err := j.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM jobs WHERE account = ? AND state IN ('queued', 'running')`, account).Scan(&open)
	switch {
	case err != nil:
		return nil, fmt.Errorf("jobs: %w", err)
	case open >= maxOpenJobs:
		return nil, ErrTooManyJobs
	}
	id, hasList := strings.ToLower(rand.Text()), 0
	if list != nil {
		hasList = 1
		if err := j.store.Put(ctx, listKey(id), bytes.NewReader(list), int64(len(list))); err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
	}
	_, err = j.db.ExecContext(ctx, `INSERT INTO jobs (id, account, form, query, list, state, created) VALUES (?, ?, ?, ?, ?, 'queued', ?)`,
		id, account, form, parameters, hasList, db.Millis(time.Now()))
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return j.Get(ctx, account, id)
}

const columns = `id, account, form, query, list, state, created, worker, finished, scanned, records, bytes, problem`

func scan(row interface{ Scan(...any) error }) (*Job, error) {
	var job Job
	err := row.Scan(&job.ID, &job.Account, &job.Form, &job.Query, &job.list, &job.State, db.At(&job.Created), &job.worker, db.At(&job.Finished), &job.Scanned, &job.Records, &job.Bytes, &job.Problem)
	return &job, err
}

// Get returns a job of an account, or ErrNoJob.
func (j *Jobs) Get(ctx context.Context, account, id string) (*Job, error) {
	job, err := scan(j.db.QueryRowContext(ctx, `SELECT `+columns+` FROM jobs WHERE id = ? AND account = ?`, id, account))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	return job, nil
}

// List returns an account's jobs, the oldest first.
func (j *Jobs) List(ctx context.Context, account string) ([]*Job, error) {
	all, err := db.List(ctx, j.db, func(rows *sql.Rows, job **Job) (err error) {
		*job, err = scan(rows)
		return err
	}, `SELECT `+columns+` FROM jobs WHERE account = ? ORDER BY created, id`, account)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return all, nil
}

// Queue counts the jobs in one state.
type Queue struct {
	State  string
	Jobs   int64
	Oldest time.Time // when the oldest of them was asked for
}

// Queues counts the unfinished jobs by state. It is quick.
func (j *Jobs) Queues(ctx context.Context) ([]Queue, error) {
	return db.List(ctx, j.db, func(rows *sql.Rows, q *Queue) error { return rows.Scan(&q.State, &q.Jobs, db.At(&q.Oldest)) },
		`SELECT state, COUNT(*), MIN(created) FROM jobs WHERE state IN ('queued', 'running') GROUP BY state`)
}

// Delete cancels a job, or deletes a finished one with its result.
func (j *Jobs) Delete(ctx context.Context, account, id string) error {
	if _, err := j.Get(ctx, account, id); err != nil {
		return err
	}
	return j.forget(ctx, id)
}

// forget deletes a job's row, which stops its worker, then its objects.
func (j *Jobs) forget(ctx context.Context, id string) error {
	if _, err := j.db.ExecContext(ctx, `DELETE FROM jobs WHERE id = ?`, id); err != nil {
		return fmt.Errorf("job %s: %w", id, err)
	}
	for object, err := range j.store.List(ctx, JobPrefix+id+"/", "") {
		if err == nil {
			err = j.store.Delete(ctx, object.Key)
		}
		if err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return nil
}

// Open opens a job's result for its account, as a file called name. It fails with ErrNotDone unless
// the job is done, and with library.ErrChanged as Files.Open does.
func (j *Jobs) Open(ctx context.Context, a *account.Account, job *Job, name string) (*library.File, error) {
	if job.State != api.JobDone {
		return nil, ErrNotDone
	}
	// Callers share the result, and a caller may leave before it is loaded.
	made, err := j.files.GetOrBuild(context.WithoutCancel(ctx), a, "job "+job.ID, func(ctx context.Context) (File, error) { return j.load(ctx, job) })
	if err != nil {
		return nil, err
	}
	return j.files.Open(ctx, a, made, name)
}

// load loads the result of a job from the store.
func (j *Jobs) load(ctx context.Context, job *Job) (File, error) {
	r, err := j.store.Open(ctx, resultKey(job.ID, job.worker), 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil, ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", job.ID, err)
	}
	defer r.Close()
	if TableIsOfRecords(job.Form) {
		return loadTable(r, j.store, tableKey(job.ID, job.worker))
	}
	return loadBundle(r, j.files.Archive)
}

// parse parses a job's query again.
func (j *Jobs) parse(ctx context.Context, job *Job) (*records.Query, error) {
	values, err := url.ParseQuery(job.Query)
	if err != nil {
		return nil, err
	}
	if !job.list {
		return records.ParseQuery(values, nil)
	}
	r, err := j.store.Open(ctx, listKey(job.ID), 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	targets, err := records.ReadTargets(io.LimitReader(r, records.MaxTargetBytes))
	if err != nil {
		return nil, err
	}
	return records.ParseQuery(values, targets)
}

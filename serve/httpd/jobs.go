package httpd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/results"
)

const (
	jobRetry   = 5 * time.Second // when to ask again about a job that goes on
	resultName = "pages"
)

// jobsHandler takes queries as jobs, tells how far they are and serves their results.
type jobsHandler struct {
	jobs   *results.Jobs
	limits *guard.Limits
	sender *guard.Sender
}

// jobProblem turns an error of results.Jobs into the problem to answer. It returns other errors as
// they are.
func jobProblem(err error) error {
	switch {
	case errors.Is(err, results.ErrNoJob):
		return problem.New(http.StatusNotFound, "no_job", err.Error())
	case errors.Is(err, results.ErrTooManyJobs):
		return guard.Busy(http.StatusTooManyRequests, "too_many_jobs", err.Error())
	case errors.Is(err, results.ErrNotDone):
		return problem.New(http.StatusConflict, "not_done", err.Error()+"; GET "+api.PathJobs+"/<id> tells how far it is")
	}
	return err
}

// formOf returns the form of the file in a request's path: a suffix, or the name of a table.
func formOf(r *http.Request) string { return cmp.Or(mux.Vars(r)["form"], path.Base(r.URL.Path)) }

// create makes a job of a query for a file or a table of records. The body may be a list of URLs
// and hosts, as for /v1/cdx.
func (j *jobsHandler) create(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	release, err := receive(j.limits, w, r, a)
	if err != nil {
		return err
	}
	defer release()
	leave, err := j.limits.Lists.Enter(r, a)
	if err != nil {
		return err
	}
	defer leave()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var list []byte
	if len(bytes.TrimSpace(body)) > 0 {
		list = body
		r.Body = io.NopCloser(bytes.NewReader(body))
	} else {
		r = r.Clone(r.Context())
		r.Method = http.MethodGet // the parameters say everything
	}
	form := formOf(r)
	if _, err := readQuery(w, r); err != nil {
		return err
	}
	job, err := j.jobs.Create(r.Context(), a.Name, form, r.URL.RawQuery, list)
	if err != nil {
		return err
	}
	leave()
	w.Header().Set("Location", api.PathJobs+"/"+job.ID)
	return problem.JSON(w, http.StatusAccepted, statusOf(job))
}

func statusOf(j *results.Job) api.JobStatus {
	st := api.JobStatus{
		ID: j.ID, State: j.State, Form: j.Form, Query: j.Query, Created: j.Created,
		Scanned: j.Scanned, Records: j.Records, Bytes: j.Bytes, Finished: j.Finished, Problem: j.Problem,
	}
	if !j.Finished.IsZero() {
		st.Expires = j.Expires()
	}
	if j.State == api.JobDone {
		st.Result = resultPath(j)
	}
	return st
}

func resultPath(j *results.Job) string { return api.PathJobs + "/" + j.ID + "/" + resultFile(j) }

// resultFile returns the name of a job's file.
func resultFile(j *results.Job) string {
	if results.TableIsOfRecords(j.Form) {
		return j.Form
	}
	return resultName + j.Form
}

func (j *jobsHandler) list(ctx context.Context, _ route.None) (list api.JobList, err error) {
	all, err := j.jobs.List(ctx, guard.Account(ctx).Name)
	list.Jobs = make([]api.JobStatus, 0, len(all))
	for _, job := range all {
		list.Jobs = append(list.Jobs, statusOf(job))
	}
	return list, err
}

func (j *jobsHandler) status(ctx context.Context, id string) (st api.JobStatus, err error) {
	job, err := j.jobs.Get(ctx, guard.Account(ctx).Name, id)
	if err != nil {
		return st, err
	}
	if job.State == api.JobQueued || job.State == api.JobRunning {
		route.Header(ctx).Set("Retry-After", time.Now().Add(jobRetry).UTC().Format(http.TimeFormat))
	}
	return statusOf(job), nil
}

func (j *jobsHandler) delete(ctx context.Context, id string) error {
	return j.jobs.Delete(ctx, guard.Account(ctx).Name, id)
}

// result serves the file of a job. The file stays the same as long as it is kept, so that clients
// can resume. If something in it is taken down, the file is gone.
func (j *jobsHandler) result(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	job, err := j.jobs.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err == nil && job.Form != formOf(r) {
		err = results.ErrNoJob
	}
	if err != nil {
		return err
	}
	f, err := j.jobs.Open(r.Context(), a, job, resultPath(job))
	if err != nil {
		return err
	}
	defer f.Close()
	j.sender.File(w, r, a, f, resultPath(job), resultFile(job))
	return nil
}

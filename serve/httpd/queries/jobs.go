package queries

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/send"
	"sheaf/serve/jobs"
	"sheaf/serve/tables"
)

const (
	jobRetry   = 5 * time.Second // when to ask again about a job that goes on
	resultName = "pages"
)

// jobsHandler takes queries as jobs, tells how far they are and serves their results.
type jobsHandler struct {
	jobs   *jobs.Jobs
	limits *guard.Limits
	sender *send.Sender
}

func (j *jobsHandler) register(r *mux.Router, g *guard.Guard) {
	handle := func(path string, h guard.Handler, methods ...string) {
		r.Handle(path, g.Consumer(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			return jobProblem(h(w, r, a))
		}, account.ForQueries)).Methods(methods...)
	}
	handle(api.PathPages+archiveForm, j.create, http.MethodPost)
	for _, table := range []string{tables.RecordsName, tables.LinksName} {
		handle(api.PathTables+table, j.create, http.MethodPost)
		handle(api.PathJobs+"/{id}/"+table, j.result, guard.Reading()...)
	}
	handle(api.PathJobs, j.list, guard.Reading()...)
	handle(api.PathJobs+"/{id}", j.status, guard.Reading()...)
	handle(api.PathJobs+"/{id}", j.delete, http.MethodDelete)
	handle(api.PathJobs+"/{id}/"+resultName+archiveForm, j.result, guard.Reading()...)
}

// jobProblem returns the problem to answer for an error of package jobs, and other errors as they
// are.
func jobProblem(err error) error {
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return problem.New(http.StatusNotFound, "no_job", err.Error())
	case errors.Is(err, jobs.ErrTooMany):
		return guard.Busy(http.StatusTooManyRequests, "too_many_jobs", err.Error())
	case errors.Is(err, jobs.ErrNotDone):
		return problem.New(http.StatusConflict, "not_done", err.Error()+"; GET "+api.PathJobs+"/<id> tells how far it is")
	}
	return err
}

// formOf returns the form of the file that a path names.
func formOf(r *http.Request) string { return cmp.Or(mux.Vars(r)["form"], path.Base(r.URL.Path)) }

// create makes a job of a query for pages or for a table of them. The body may be a list of URLs
// and hosts, as that of /v1/cdx.
func (j *jobsHandler) create(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	release, err := receive(j.limits, w, r, a)
	if err != nil {
		return err
	}
	defer release()
	leave, err := j.limits.List(r, a)
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
	read := readPagesQuery
	if tables.OfRecords(form) {
		read = readTableQuery
	}
	if _, err := read(w, r); err != nil {
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

func statusOf(j *jobs.Job) api.JobStatus {
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

func resultPath(j *jobs.Job) string { return api.PathJobs + "/" + j.ID + "/" + resultFile(j) }

// resultFile returns the name of a job's file.
func resultFile(j *jobs.Job) string {
	if tables.OfRecords(j.Form) {
		return j.Form
	}
	return resultName + j.Form
}

func (j *jobsHandler) list(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	all, err := j.jobs.List(r.Context(), a.Name)
	if err != nil {
		return err
	}
	list := api.JobList{Jobs: make([]api.JobStatus, 0, len(all))}
	for _, job := range all {
		list.Jobs = append(list.Jobs, statusOf(job))
	}
	return problem.JSON(w, http.StatusOK, list)
}

func (j *jobsHandler) status(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	job, err := j.jobs.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	if job.State == api.JobQueued || job.State == api.JobRunning {
		w.Header().Set("Retry-After", time.Now().Add(jobRetry).UTC().Format(http.TimeFormat))
	}
	return problem.JSON(w, http.StatusOK, statusOf(job))
}

func (j *jobsHandler) delete(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if err := j.jobs.Delete(r.Context(), a.Name, mux.Vars(r)["id"]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// result serves the file of a job. As long as it is kept it stays the same, so that clients can
// resume, unless something in it is taken down: then it is gone.
func (j *jobsHandler) result(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	job, err := j.jobs.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err == nil && job.Form != formOf(r) {
		err = jobs.ErrNotFound
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

package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/jobs"
	"sheaf/serve/query"
)

// PathJobs is where jobs are.
const PathJobs = "/v1/jobs"

const (
	jobRetry   = 5 * time.Second // when to ask again of a job that goes on
	resultName = "pages"
)

// JobStatus is the answer of GET /v1/jobs/<id>.
type JobStatus struct {
	ID       string     `json:"id"`
	State    jobs.State `json:"state"` // queued, running, done, failed
	Form     string     `json:"form"`
	Query    string     `json:"query"`
	Created  time.Time  `json:"created"`
	Scanned  int64      `json:"scanned"` // records looked at so far
	Records  int64      `json:"records"` // records found so far
	Bytes    int64      `json:"bytes"`   // of the file so far; when it is done, its size
	Result   string     `json:"result,omitempty"`
	Finished time.Time  `json:"finished,omitzero"`
	Expires  time.Time  `json:"expires,omitzero"` // when job and result are forgotten
	Problem  string     `json:"problem,omitempty"`
}

// JobList is the answer of GET /v1/jobs, the oldest first.
type JobList struct {
	Jobs []JobStatus `json:"jobs"`
}

func (s *server) registerJobs(r *mux.Router, get func(string, func(http.ResponseWriter, *http.Request, *account.Account) error)) {
	r.Handle(PathPages+archiveForm, s.authenticated(s.postPages)).Methods(http.MethodPost)
	get(PathJobs, s.listJobs)
	get(PathJobs+"/{id}", s.job)
	get(PathJobs+"/{id}/"+resultName+archiveForm, s.jobResult)
	r.Handle(PathJobs+"/{id}", s.authenticated(s.deleteJob)).Methods(http.MethodDelete)
}

// postPages serves POST /v1/pages<form>: the query becomes a job. The body may name
// URLs and hosts, as /v1/cdx's may.
func (s *server) postPages(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	leave, err := s.lists.enter(payer(r, a))
	if err != nil {
		return err
	}
	defer leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, query.MaxListBytes))
	if err != nil {
		return err
	}
	var list []byte
	if len(bytes.TrimSpace(body)) > 0 {
		list = body
		r.Body = io.NopCloser(bytes.NewReader(body))
	} else {
		r = r.Clone(r.Context())
		r.Method = http.MethodGet // so that its parameters say it all
	}
	if _, err := readPagesQuery(w, r); err != nil {
		return err
	}
	job, err := s.Jobs.Create(r.Context(), a.Name, mux.Vars(r)["form"], r.URL.RawQuery, list)
	if err != nil {
		return s.jobProblem(err)
	}
	w.Header().Set("Location", PathJobs+"/"+job.ID)
	return answerJSON(w, http.StatusAccepted, statusOf(job))
}

func statusOf(j *jobs.Job) JobStatus {
	st := JobStatus{
		ID: j.ID, State: j.State, Form: j.Form, Query: j.Query, Created: j.Created,
		Scanned: j.Scanned, Records: j.Records, Bytes: j.Bytes, Finished: j.Finished, Problem: j.Problem,
	}
	if !j.Finished.IsZero() {
		st.Expires = j.Expires()
	}
	if j.State == jobs.Done {
		st.Result = resultPath(j)
	}
	return st
}

func resultPath(j *jobs.Job) string { return PathJobs + "/" + j.ID + "/" + resultName + j.Form }

func (s *server) listJobs(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	all, err := s.Jobs.List(r.Context(), a.Name)
	if err != nil {
		return err
	}
	list := JobList{Jobs: make([]JobStatus, 0, len(all))}
	for _, j := range all {
		list.Jobs = append(list.Jobs, statusOf(j))
	}
	return answerJSON(w, http.StatusOK, list)
}

func (s *server) job(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	j, err := s.Jobs.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err != nil {
		return s.jobProblem(err)
	}
	if j.State == jobs.Queued || j.State == jobs.Running {
		w.Header().Set("Retry-After", time.Now().Add(jobRetry).UTC().Format(http.TimeFormat))
	}
	return answerJSON(w, http.StatusOK, statusOf(j))
}

func (s *server) deleteJob(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if err := s.Jobs.Delete(r.Context(), a.Name, mux.Vars(r)["id"]); err != nil {
		return s.jobProblem(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// jobResult serves what a job has gathered. It stays the same file whatever is
// published, so that it can be resumed for as long as it is kept; a take-down in it ends that.
func (s *server) jobResult(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	j, err := s.Jobs.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err == nil && j.Form != mux.Vars(r)["form"] {
		err = jobs.ErrNotFound
	}
	if err != nil {
		return s.jobProblem(err)
	}
	g, err := s.Jobs.Result(context.WithoutCancel(r.Context()), a, j)
	if err != nil {
		return s.jobProblem(err)
	}
	f, err := s.Library.OpenGathering(r.Context(), a, g, resultPath(j))
	if err != nil {
		return err
	}
	defer f.Close()
	return s.sendFile(w, r, a, f, resultPath(j), resultName+j.Form)
}

// jobProblem turns the errors of jobs into problems.
func (s *server) jobProblem(err error) error {
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return problem.New(http.StatusNotFound, "no_job", err.Error())
	case errors.Is(err, jobs.ErrTooMany):
		return busy(http.StatusTooManyRequests, "too_many_jobs", err.Error())
	case errors.Is(err, jobs.ErrNotDone):
		return problem.New(http.StatusConflict, "not_done", err.Error()+"; GET "+PathJobs+"/<id> tells how far it is")
	}
	return err
}

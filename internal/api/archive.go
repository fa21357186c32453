package api

import (
	"time"

	"sheaf/internal/wire"
)

// HostList is the answer of PathHosts. Next is the value of "after" for the next query, if there
// are more hosts; the Link header has the whole URL.
type HostList struct {
	Hosts []HostLine `json:"hosts"`
	Next  string     `json:"next,omitempty"`
}

// HostLine sums up a host's published archive.
type HostLine struct {
	Host      string    `json:"host"`
	Path      string    `json:"path"` // path of the host's directory
	Editions  int       `json:"editions"`
	Latest    string    `json:"latest"` // newest edition
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // as stored
	First     time.Time `json:"first"` // crawl span
	Last      time.Time `json:"last"`
	Published time.Time `json:"published"` // of the latest edition
}

// EditionList is the answer of PathEditions, oldest first.
type EditionList struct {
	Editions []Edition `json:"editions"`
}

// Edition sums up one publication.
type Edition struct {
	Name      string    `json:"edition"`
	Version   int64     `json:"version"` // of the catalog
	Published time.Time `json:"published"`
	Hosts     int64     `json:"hosts"`
	Segments  int64     `json:"segments"`
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // of segments
}

// VersionDocument is the answer of PathVersion.
type VersionDocument struct {
	Program string `json:"program"`
	Catalog int64  `json:"catalog"` // number of the newest catalog version
}

// CoverageList is the answer of PathCoverage. Next is the cursor for the next query, if there are
// more lines; the Link header has the whole URL.
type CoverageList struct {
	Coverage []Coverage `json:"coverage"`
	Next     string     `json:"next,omitempty"`
}

// Coverage counts what a robot collected of one host, and what it left out, as the signed manifest
// of the batch says.
type Coverage struct {
	wire.Coverage
	Batch     string    `json:"batch"`
	Robot     string    `json:"robot"`
	Edition   string    `json:"edition"`
	Created   time.Time `json:"created"` // when the batch was sealed
	Published time.Time `json:"published"`
}

// JobStatus is the answer of PathJobs/<id>.
type JobStatus struct {
	ID       string    `json:"id"`
	State    JobState  `json:"state"`
	Form     string    `json:"form"`
	Query    string    `json:"query"`
	Created  time.Time `json:"created"`
	Scanned  int64     `json:"scanned"` // records looked at so far
	Records  int64     `json:"records"` // records found so far
	Bytes    int64     `json:"bytes"`   // of the file so far
	Result   string    `json:"result,omitempty"`
	Finished time.Time `json:"finished,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // when job and result are forgotten
	Problem  string    `json:"problem,omitempty"`
}

// JobState is the progress of a job.
type JobState string

const (
	JobQueued  JobState = "queued"
	JobRunning JobState = "running"
	JobDone    JobState = "done"
	JobFailed  JobState = "failed"
)

// JobList is the answer of PathJobs, oldest first.
type JobList struct {
	Jobs []JobStatus `json:"jobs"`
}

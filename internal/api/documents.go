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

// DiffDocument is a comparison of two versions of a page, the answer of PathDiff with Accept:
// application/json.
type DiffDocument struct {
	URL       string     `json:"url"`
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	SameBytes bool       `json:"same_bytes"`
	Text      bool       `json:"text"`      // both are text and were compared as such
	Identical bool       `json:"identical"` // the text that people read is the same
	Whole     bool       `json:"whole"`     // false: only the beginning was compared, or some parts only as a whole
	Removed   int        `json:"removed"`   // characters
	Added     int        `json:"added"`     // characters
	Title     []DiffSpan `json:"title,omitempty"`
	Hunks     []DiffHunk `json:"hunks,omitempty"`
}

// DiffHunk is a stretch of the page: "same", "removed" or "added" with its paragraphs, or "changed"
// with spans.
type DiffHunk struct {
	Op         string     `json:"op"`
	Paragraphs []string   `json:"paragraphs,omitempty"`
	Count      int        `json:"count,omitempty"` // of same paragraphs, whose text is left out
	Spans      []DiffSpan `json:"spans,omitempty"`
}

// DiffSpan is a piece of text: "same", "removed" or "added".
type DiffSpan struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// TimeMap is the answer of PathTimeMap + "json/", in the form of Memento aggregators: a list of
// versions, or an index of TimeMaps, each for one stretch of time. Each of these TimeMaps also has
// the index of the others.
type TimeMap struct {
	Original string            `json:"original_uri"`
	Self     string            `json:"self"`
	TimeGate string            `json:"timegate_uri"`
	TimeMaps map[string]string `json:"timemap_uri"`
	Index    []TimeMapLine     `json:"timemap_index,omitempty"`
	Mementos *MementoList      `json:"mementos,omitempty"` // nil: this is an index
}

// TimeMapLine is one TimeMap of an index.
type TimeMapLine struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	URI   string    `json:"uri"`
}

// MementoList has the versions of a TimeMap.
type MementoList struct {
	First MementoLine   `json:"first"`
	Last  MementoLine   `json:"last"`
	List  []MementoLine `json:"list"`
}

// MementoLine is one version of a page.
type MementoLine struct {
	Datetime time.Time `json:"datetime"`
	URI      string    `json:"uri"`
}

// Inlink is a link to a page, with the page that has the link.
type Inlink struct {
	Source   string    `json:"source"`  // URL of the page that has the link
	Time     time.Time `json:"time"`    // when that page was fetched
	Edition  string    `json:"edition"` // edition that has that page
	Target   string    `json:"target"`
	Kind     string    `json:"kind"`               // what refers: an element, css, sitemap, feed, header, redirect
	Rel      string    `json:"rel,omitempty"`      // words of the rel attribute
	Anchor   string    `json:"anchor,omitempty"`   // text of the link, or the text in place of its image
	NoFollow bool      `json:"nofollow,omitempty"` // the page asks not to follow the link
}

// InlinkList is the answer of PathInlinks. Next is the cursor for the next query, if there may be
// more links.
type InlinkList struct {
	Links []Inlink `json:"links"`
	Next  string   `json:"next,omitempty"`
}

// InlinkHost is a host that links to a site. Source and Target are an example of its links.
type InlinkHost struct {
	Host   string `json:"host"`
	Pages  int64  `json:"pages"` // number of its pages that link to the site
	Links  int64  `json:"links"` // on these pages
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
}

// InlinkHostList is the answer of PathInlinkHosts.
type InlinkHostList struct {
	Hosts []InlinkHost `json:"hosts"`
	Next  string       `json:"next,omitempty"`
}

// KeyTrouble is a robot that does not know the service's newest key.
type KeyTrouble struct {
	Robot string `json:"robot"`
	Why   string `json:"why"` // why, and what to do
}

package wire

// Coverage counts what became of one host's pages between the robot's previous batch and this one.
// The counts of a day are the sums over its batches, except Left and Later, which are those of the
// last batch. Fields that are zero are omitted.
type Coverage struct {
	Host      string           `json:"host"`
	Collected int64            `json:"collected,omitempty"` // pages, archived in full
	Unchanged int64            `json:"unchanged,omitempty"` // pages archived as revisits
	Answers   map[string]int64 `json:"answers,omitempty"`   // archived answers that are not pages, by status: "301", "404"
	Truncated map[string]int64 `json:"truncated,omitempty"` // of the collected pages, by WARC's reasons
	Marked    map[string]int64 `json:"marked,omitempty"`    // of the answers: "blocked", "soft404", "parked"
	Refused   int64            `json:"refused,omitempty"`   // disallowed by robots.txt, or left out for their owner
	Withheld  int64            `json:"withheld,omitempty"`  // fetched, and not archived because the page asks for that
	Failed    map[string]int64 `json:"failed,omitempty"`    // given up after all tries, by what happened: "dns", "timeout", "503"
	Cut       map[string]int64 `json:"cut,omitempty"`       // links not followed, by what cut them: "depth", "length", "host_full", "page_links"; robotd/batch lists them
	Left      int64            `json:"left,omitempty"`      // URLs still queued when the batch was made
	LeftWhy   string           `json:"left_why,omitempty"`  // "window", "size", "host" (the host fails or is not found), "cycle"
	Later     int64            `json:"later,omitempty"`     // known pages that wait for a later cycle, as this one has no time for them
	URLs      []CoveredURL     `json:"urls,omitempty"`      // some of the pages that were not collected
	More      bool             `json:"more,omitempty"`      // URLs does not list all of them
}

// CoveredURL names a URL that was not collected.
type CoveredURL struct {
	URL string `json:"url"`
	Why string `json:"why"` // a kind and, after a space, the reason: "failed timeout", "marked parked"
}

// Clock is the difference between the robot's clock and the manager's, measured from the manager's
// answers.
type Clock struct {
	OffsetMS int64 `json:"offset_ms"` // robot's time minus manager's, in milliseconds
	ErrorMS  int64 `json:"error_ms"`  // the true offset differs by at most this many milliseconds
}

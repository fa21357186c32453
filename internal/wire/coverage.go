package wire

// Coverage says what became of one host's pages between the robot's previous batch
// and this one; the day's are the sum over the day's batches, of Left and Later the last batch's. What is
// zero is left out.
type Coverage struct {
	Host      string           `json:"host"`
	Collected int64            `json:"collected,omitempty"` // pages, taken in full
	Unchanged int64            `json:"unchanged,omitempty"` // revisits
	Answers   map[string]int64 `json:"answers,omitempty"`   // what is archived and no page, by status: "301", "404"
	Truncated map[string]int64 `json:"truncated,omitempty"` // of those collected, by WARC's reasons
	Marked    map[string]int64 `json:"marked,omitempty"`    // of the answers: "blocked", "soft404", "parked"
	Refused   int64            `json:"refused,omitempty"`   // disallowed by robots.txt
	Withheld  int64            `json:"withheld,omitempty"`  // fetched, and not archived because the page asks for that
	Failed    map[string]int64 `json:"failed,omitempty"`    // given up after all tries, by what happened: "dns", "timeout", "503"
	Cut       map[string]int64 `json:"cut,omitempty"`       // links not followed, by what cut them: "depth", "length", "host_full", "page_links"; robotd/coverage lists them
	Left      int64            `json:"left,omitempty"`      // URLs still queued when the batch was made
	LeftWhy   string           `json:"left_why,omitempty"`  // "window", "size", "host" (it fails or is not found), "cycle"
	Later     int64            `json:"later,omitempty"`     // known pages that the cycle has no room for, so that they wait for a later one
	URLs      []CoveredURL     `json:"urls,omitempty"`      // some of those not collected
	More      bool             `json:"more,omitempty"`      // there were more than URLs lists
}

// CoveredURL names a URL that was not collected.
type CoveredURL struct {
	URL string `json:"url"`
	Why string `json:"why"` // a kind and, after a blank, the reason: "failed timeout", "marked parked"
}

// Clock is how far the robot's clock is ahead of the manager's, as the manager's
// answers tell.
type Clock struct {
	OffsetMS int64 `json:"offset_ms"` // robot's less manager's, in milliseconds
	ErrorMS  int64 `json:"error_ms"`  // the true offset is at most this far from it
}

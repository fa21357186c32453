package status

// Coverage counts what became of a cycle's pages since the robot started. Together with the
// manifests of the batches, which have the counts by host, it covers every page that was due.
type Coverage struct {
	Pages      int64                       `json:"pages"`      // taken in full
	Unchanged  int64                       `json:"unchanged"`  // revisits
	Answers    int64                       `json:"answers"`    // archived, and no page: redirects, "not found"
	Unverified int64                       `json:"unverified"` // of all these, from servers whose certificate does not verify
	Lost       map[string]map[string]int64 `json:"lost"`       // not collected, by kind and reason
	Left       int64                       `json:"left"`       // queued and not visited
	Why        map[string]int64            `json:"why"`        // of those, by what keeps them
	Later      int64                       `json:"later"`      // known, and put off to a later cycle for want of room
}

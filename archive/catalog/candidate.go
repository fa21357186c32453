package catalog

// Reason is why an object is collected.
type Reason string

const (
	ReasonMerged      Reason = "merged"      // a run whose rows are in a merged run
	ReasonUnpublished Reason = "unpublished" // an object of an attempt that failed, or of a batch that will not be published
	ReasonTakenDown   Reason = "taken-down"  // all in it is taken down or expired, some taken down
	ReasonUnused      Reason = "unused"      // an object that its derived index does not need any more
	ReasonExpired     Reason = "expired"     // everything in it has expired
)

// Candidate is one object that is marked or deleted.
type Candidate struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"` // bytes
	Reason Reason `json:"why"`
}

// Tally counts objects, and names the first thousand.
type Tally struct {
	Objects int64       `json:"objects"`
	Bytes   int64       `json:"bytes"`
	Some    []Candidate `json:"some,omitempty"`
}

func (t *Tally) add(c Candidate) {
	t.Objects++
	t.Bytes += c.Size
	if len(t.Some) < maxListed {
		t.Some = append(t.Some, c)
	}
}

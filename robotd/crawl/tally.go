package crawl

import (
	"sync/atomic"

	"sheaf/archive"
	"sheaf/robotd/status"
)

// Tally counts the records that were stored in a cycle, since the start. Its methods may be called
// concurrently.
type Tally struct {
	pages, unchanged, answers atomic.Int64
	unverified                atomic.Int64 // of all these, from servers whose certificate does not verify
}

func (t *Tally) count(kind archive.Kind, verified bool) {
	switch kind {
	case archive.Page:
		t.pages.Add(1)
	case archive.Revisit:
		t.unchanged.Add(1)
	default:
		t.answers.Add(1)
	}
	if !verified {
		t.unverified.Add(1)
	}
}

// Reset begins a cycle.
func (t *Tally) Reset() {
	t.pages.Store(0)
	t.unchanged.Store(0)
	t.answers.Store(0)
	t.unverified.Store(0)
}

// Coverage returns the counts.
func (t *Tally) Coverage() status.Coverage {
	return status.Coverage{
		Pages: t.pages.Load(), Unchanged: t.unchanged.Load(), Answers: t.answers.Load(), Unverified: t.unverified.Load(),
		Why: map[string]int64{},
	}
}

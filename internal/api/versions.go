package api

import "time"

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

package wire

import "strings"

// PathWatches is where a robot learns which of its hosts' pages consumers watch: GET, a
// WatchList, with an ETag, so that an unchanged list costs nothing.
const PathWatches = "/v1/robots/{robot}/watches"

// MaxWatches is the largest list, in bytes, that a robot takes.
const MaxWatches = 64 << 20

// Kinds of what is watched.
const (
	WatchURL    = "url"
	WatchPrefix = "prefix"
	WatchHost   = "host"
)

// WatchOrder is something that consumers watch: a robot visits it in every cycle, and oftener
// where it changes oftener, and hands a change in at once.
type WatchOrder struct {
	Kind string `json:"kind"`
	Host string `json:"host"`
	URL  string `json:"url"` // under which the answer is kept

	// Of a form, whose answer is kept under a URL of its own: where its fields are sent by POST.
	Address string `json:"address,omitempty"`
	Body    string `json:"body,omitempty"`
	Media   string `json:"media,omitempty"`
}

// WatchList is what is watched of one robot's hosts, each thing once.
type WatchList struct {
	Watches []WatchOrder `json:"watches"`
}

// Covers reports whether a page of the order's host is watched by it.
func (o *WatchOrder) Covers(url string) bool {
	switch o.Kind {
	case WatchURL:
		return url == o.URL
	case WatchPrefix:
		return strings.HasPrefix(url, o.URL)
	}
	return o.Kind == WatchHost
}

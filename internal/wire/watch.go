package wire

import "strings"

// PathWatches is the path from which a robot gets its WatchList: which pages of its hosts consumers
// watch. The ETag makes an unchanged list cheap.
const PathWatches = "/v1/robots/{robot}/watches"

// MaxWatches is the limit for a WatchList that a robot accepts, in bytes.
const MaxWatches = 64 << 20

// Kinds of watches.
const (
	WatchURL    = "url"
	WatchPrefix = "prefix"
	WatchHost   = "host"
)

// WatchOrder is something that consumers watch. A robot visits it at least once in every cycle,
// more often if it changes more often, and delivers a change at once.
type WatchOrder struct {
	Kind string `json:"kind"`
	Host string `json:"host"`
	URL  string `json:"url"` // the answer is stored under this URL

	// Address and Body belong to a form, whose answer has a URL of its own: the fields and the
	// address to which they are posted.
	Address string `json:"address,omitempty"`
	Body    string `json:"body,omitempty"`
	Media   string `json:"media,omitempty"`

	// Once, unless 0, asks for one visit as soon as may be, and for its batch at once. Whoever asks
	// later makes it larger. A robot that has made the visit waits for a larger one.
	Once int64 `json:"once,omitempty"`
}

// WatchList has everything that is watched on one robot's hosts, each once.
type WatchList struct {
	Watches []WatchOrder `json:"watches"`
}

// Covers reports whether the order watches a URL, which must be on the order's host.
func (o *WatchOrder) Covers(url string) bool {
	switch o.Kind {
	case WatchURL:
		return url == o.URL
	case WatchPrefix:
		return strings.HasPrefix(url, o.URL)
	}
	return o.Kind == WatchHost
}

package wire

import "strings"

// PathWatches is the path from which a robot gets its WatchList, the pages of its hosts that
// consumers watch. By the ETag, a robot does not fetch an unchanged list again.
const PathWatches = "/v1/robots/{robot}/watches"

// MaxWatches is the limit for a WatchList that a robot accepts, in bytes.
const MaxWatches = 64 << 20

// Kinds of watches.
const (
	WatchURL    = "url"
	WatchPrefix = "prefix"
	WatchHost   = "host"
)

// WatchOrder is a page, a URL prefix or a host that consumers watch. A robot visits it at least
// once in every cycle, more often if it changes more often, and delivers a change at once.
type WatchOrder struct {
	Kind string `json:"kind"`
	Host string `json:"host"`
	URL  string `json:"url"` // the answer is stored under this URL

	// Address and Body are only set for a form: the URL to which the robot posts, and the posted
	// fields. The answer has a URL of its own.
	Address string `json:"address,omitempty"`
	Body    string `json:"body,omitempty"`
	Media   string `json:"media,omitempty"`

	// Once, unless 0, asks for one visit as soon as possible, and for its batch at once. Each
	// further request makes the number larger. A robot that has made the visit waits for a larger
	// number.
	Once int64 `json:"once,omitempty"`
}

// WatchList has all WatchOrders for one robot's hosts, each once.
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

package crawl

import (
	"net/http"
	"strings"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
)

// Failed reports whether a status says that the page may come another time.
func Failed(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// Overloaded reports whether a status asks for fewer visits to the host. Other failures are those
// of the program that makes the page.
func Overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// maxRetryAfter is the longest Retry-After that is obeyed: it slows a host and never loses it.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns when an answer allows the next visit; zero: it does not say.
func retryAfter(header http.Header) time.Time {
	now := time.Now()
	if wait := batch.RetryAfter(header, now); wait > 0 {
		return now.Add(min(wait, maxRetryAfter))
	}
	return time.Time{}
}

// exchange returns the line of the collection's log for an answer.
func exchange(url string, resp *fetch.Response) wire.LogLine {
	return wire.LogLine{
		URL: url, Sent: resp.RequestBytes, Got: resp.ResponseBytes,
		Took: resp.Took, Header: strings.TrimRight(string(resp.HTTP), "\r\n"),
	}
}

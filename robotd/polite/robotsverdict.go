package polite

import (
	"fmt"
	"net/http"

	"sheaf/internal/preference"
)

// Verdict is the result of fetching a robots.txt.
type Verdict struct {
	Rules *preference.Robots // nil: unknown what the host allows
	Text  []byte             // text of Rules; empty if everything is allowed
	Why   string             // for the log
}

// NotNow reports whether the host must be left alone until its robots.txt can be fetched. A host in
// trouble is never taken to allow anything.
func (v Verdict) NotNow() bool { return v.Rules == nil }

// FromResponse returns the verdict for the last answer to a request for robots.txt, after up to
// five redirects (RFC 9309, 2.3.1). Rules are obeyed. A file that does not exist, or whose
// redirects do not end, allows everything. A server that fails, asks to wait, cannot be reached or
// does not send all of the file allows nothing for now.
func FromResponse(status int, body []byte, err error) Verdict {
	switch {
	case err != nil:
		return Verdict{Why: fmt.Sprintf("robots.txt cannot be had: %v", err)}
	case status == http.StatusTooManyRequests || status >= 500:
		return Verdict{Why: fmt.Sprintf("robots.txt: the host answers %d", status)}
	case status == http.StatusPartialContent:
		return Verdict{Why: "robots.txt: the host sends a part of it"}
	case status >= 200 && status < 300:
		return Verdict{Rules: preference.ParseRobots(body), Text: body, Why: "robots.txt read"}
	case status >= 300 && status < 500:
		return Verdict{Rules: &preference.Robots{}, Why: fmt.Sprintf("no robots.txt (%d): all is allowed", status)}
	}
	return Verdict{Why: fmt.Sprintf("robots.txt: %d is no answer to a GET", status)}
}

package polite

import (
	"fmt"
	"net/http"
)

// Verdict is what the attempt to fetch a robots.txt came to.
type Verdict struct {
	Rules *Robots // nil: nobody knows what the host allows
	Text  []byte  // from which Rules were read; empty where all is allowed
	Why   string  // for the log
}

// NotNow reports whether the host must be left alone until its robots.txt can
// be had. It is never taken for permission that a host is in trouble.
func (v Verdict) NotNow() bool { return v.Rules == nil }

// FromResponse judges the last answer to a request for robots.txt, after up to
// five redirects (RFC 9309, 2.3.1): rules are obeyed; a file that is not there,
// or that redirects end nowhere, allows everything; a server that fails, asks for
// patience or cannot be reached allows nothing for now.
func FromResponse(status int, body []byte, err error) Verdict {
	switch {
	case err != nil:
		return Verdict{Why: fmt.Sprintf("robots.txt cannot be had: %v", err)}
	case status == http.StatusTooManyRequests || status >= 500:
		return Verdict{Why: fmt.Sprintf("robots.txt: the host answers %d", status)}
	case status >= 200 && status < 300:
		return Verdict{Rules: Parse(body), Text: body, Why: "robots.txt read"}
	case status >= 300 && status < 500:
		return Verdict{Rules: &Robots{}, Why: fmt.Sprintf("no robots.txt (%d): all is allowed", status)}
	}
	return Verdict{Why: fmt.Sprintf("robots.txt: %d is no answer to a GET", status)}
}

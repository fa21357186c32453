package httpd

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/feed"
)

// PathChanges is the change feed. Its query:
//
//	since    number behind which to begin; 0, the default, is the beginning
//	mark     of the cursor that the number is from; without it the number is believed
//	surt     only hosts whose key begins so, such as jp,ac,
//	domain   only this host and all below it
//	host     only this host
//	limit    events at most
//	wait     seconds to wait where there are none yet
//
// surt, domain and host may be given several times, and add up. The answer is a
// feed.Page. A number that has not been given is answered 400, reason "future"; a
// cursor of another feed 410, reason "expired", with a Link rel="first" to where to
// begin anew.
const PathChanges = "/v1/changes"

const (
	maxWait     = 300 // seconds
	maxSelected = 100 // of surt, domain and host together
)

func (s *server) changes(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	query := r.URL.Query()
	since, err1 := number(query, "since", 0, 0, math.MaxInt64)
	limit, err2 := number(query, "limit", defaultLimit, 1, maxLimit)
	wait, err3 := number(query, "wait", 0, 0, maxWait)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	selection := serve.Selection{SURT: query["surt"], Domains: query["domain"], Hosts: query["host"]}
	if n := len(selection.SURT) + len(selection.Domains) + len(selection.Hosts); n > maxSelected {
		return problem.New(http.StatusBadRequest, "selection", fmt.Sprintf("%d of surt, domain and host: give %d at most, and choose among the answer's events yourself", n, maxSelected))
	}
	if wait > 0 {
		leave, err := s.polls.enter(payer(r, a))
		if err != nil {
			return err
		}
		defer leave()
	}
	at := feed.Cursor{Since: since, Mark: query.Get("mark")}
	page, err := s.Library.Changes(r.Context(), a, selection, at, int(limit), time.Duration(wait)*time.Second, s.Stopping)
	switch {
	case errors.Is(err, serve.ErrFuture):
		return problem.New(http.StatusBadRequest, "future", fmt.Sprintf("nothing has the number %d yet; follow the answer's next, or begin at since=0", since))
	case errors.Is(err, serve.ErrOtherFeed):
		w.Header().Set("Link", link(r, query, feed.Cursor{}, "first"))
		return problem.New(http.StatusGone, "expired",
			"the cursor is of another feed: the archive was put back to an older state, or this account may see other hosts than before; begin at since=0, and drop what is not told of again")
	case r.Context().Err() != nil:
		return nil // who waited has gone
	case err != nil:
		return err
	}
	w.Header().Set("Link", link(r, query, page.Next, "next"))
	return answerJSON(w, http.StatusOK, page)
}

// link is the same request from another place in the feed.
func link(r *http.Request, query url.Values, at feed.Cursor, rel string) string {
	query.Set("since", strconv.FormatInt(at.Since, 10))
	query.Del("mark")
	if at.Mark != "" {
		query.Set("mark", at.Mark)
	}
	to := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	return fmt.Sprintf(`<%s>; rel="%s"`, to.String(), rel)
}

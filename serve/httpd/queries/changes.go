package queries

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/changes"
	"sheaf/serve/feed"
	"sheaf/serve/httpd/reply"
)

const (
	maxWait     = 300 // seconds
	maxSelected = 100 // of surt, domain and host together
)

// changes serves the change feed. Its query:
//
//	since    begin after this number; 0, the default, is the beginning
//	mark     mark of the cursor with that number; without it the number is believed
//	surt     only hosts whose key has this prefix, such as jp,ac,
//	domain   only this host and all below it
//	host     only this host
//	limit    maximal number of events
//	wait     seconds to wait if there are no events yet
//
// surt, domain and host may be given several times; a host must match one of them. The answer is a
// feed.Page. A number that has not been assigned yet is answered 400, reason "future". A cursor of
// another feed is answered 410, reason "expired", with a Link rel="first" to the beginning.
func (q *Queries) changes(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	values := r.URL.Query()
	since, err1 := reply.Number(values, "since", 0, 0, math.MaxInt64)
	limit, err2 := reply.Number(values, "limit", defaultLimit, 1, maxLimit)
	wait, err3 := reply.Number(values, "wait", 0, 0, maxWait)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	selection := changes.Selection{SURT: values["surt"], Domains: values["domain"], Hosts: values["host"]}
	if n := len(selection.SURT) + len(selection.Domains) + len(selection.Hosts); n > maxSelected {
		return problem.New(http.StatusBadRequest, "selection", fmt.Sprintf("%d of surt, domain and host: give %d at most, and choose among the answer's events yourself", n, maxSelected))
	}
	leave := func() {}
	if wait > 0 {
		var err error
		if leave, err = q.Limits.Poll(r, a); err != nil {
			return err
		}
		defer leave()
	}
	link := func(to feed.Cursor, rel string) {
		values.Set("since", strconv.FormatInt(to.Since, 10))
		values.Del("mark")
		if to.Mark != "" {
			values.Set("mark", to.Mark)
		}
		reply.Link(w, r, values, rel)
	}
	at := feed.Cursor{Since: since, Mark: values.Get("mark")}
	page, err := q.Library.Changes.Wait(r.Context(), a, selection, at, int(limit), time.Duration(wait)*time.Second, q.Stopping)
	leave() // sending is no wait
	switch {
	case errors.Is(err, changes.ErrFuture):
		return problem.New(http.StatusBadRequest, "future", fmt.Sprintf("nothing has the number %d yet; follow the answer's next, or begin at since=0", since))
	case errors.Is(err, changes.ErrOtherFeed):
		link(feed.Cursor{}, "first")
		return problem.New(http.StatusGone, "expired",
			"the cursor is of another feed: the archive was put back to an older state, or this account may see other hosts than before; begin at since=0, and drop what is not told of again")
	case r.Context().Err() != nil:
		return nil // the client has gone
	case err != nil:
		return err
	}
	link(page.Next, "next")
	return sendJSON(w, r, page)
}

package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// changes serves the change feed. A number that has not been assigned yet is answered 400, reason
// "future". A cursor of another feed is answered 410, reason "expired", with a Link rel="first" to
// the beginning.
func (q *Queries) changes(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := listChanges.Read(w, r)
	if err != nil {
		return err
	}
	if n := in.Selection.Len(); n > api.MaxSelected {
		return problem.New(http.StatusBadRequest, "selection", fmt.Sprintf("%d of surt, domain and host: give %d at most, and choose among the answer's events yourself", n, api.MaxSelected))
	}
	leave := func() {}
	if in.Wait > 0 {
		if leave, err = q.Limits.Polls.Enter(r, a); err != nil {
			return err
		}
		defer leave()
	}
	link := func(to api.Cursor, rel string) {
		route.Link(r.Context(), rel, map[string]string{"since": strconv.FormatInt(to.Since, 10), "mark": to.Mark})
	}
	at := api.Cursor{Since: in.Since, Mark: in.Mark}
	page, err := q.Library.Changes.Wait(r.Context(), a, in.Selection, at, in.Limit, time.Duration(in.Wait)*time.Second, q.Stopping)
	leave() // sending is no wait
	switch {
	case errors.Is(err, library.ErrFuture):
		return problem.New(http.StatusBadRequest, "future", fmt.Sprintf("nothing has the number %d yet; follow the answer's next, or begin at since=0", in.Since))
	case errors.Is(err, library.ErrOtherFeed):
		link(api.Cursor{}, "first")
		return problem.New(http.StatusGone, "expired",
			"the cursor is of another feed: the archive was put back to an older state, or this account may see other hosts than before; begin at since=0, and drop what is not told of again")
	case r.Context().Err() != nil:
		return nil // the client has gone
	case err != nil:
		return err
	}
	link(page.Next, "next")
	return q.sendJSON(w, r, a, page)
}

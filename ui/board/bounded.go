package board

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sheaf/internal/problem"
)

// patience is how long making a page may take. The database takes most of that time.
const patience = 5 * time.Second

// bounded stops a page that takes longer than patience. If a page fails while a part of the service
// does not work, the answer names that part.
func (b *board) bounded(h func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		err := h(w, r.WithContext(ctx))
		if _, ok := errors.AsType[*problem.Error](err); err == nil || ok || r.Context().Err() != nil {
			return err
		}
		var why []string
		if ctx.Err() != nil {
			why = append(why, fmt.Sprintf("the database has not answered for %v", patience))
		}
		for _, f := range b.Failing(r.Context()) {
			why = append(why, f.What+" "+f.Why)
		}
		if why == nil {
			return err
		}
		b.Log.ErrorContext(r.Context(), "a page of the board failed", "path", r.URL.Path, "err", err)
		return problem.New(http.StatusServiceUnavailable, "not_working", strings.Join(why, "; "))
	}
}

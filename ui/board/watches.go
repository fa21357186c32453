package board

import (
	"net/http"

	"sheaf/internal/webpage"
	"sheaf/serve/watch"
)

// watchesPage lists the watches whose changes could not be delivered.
type watchesPage struct {
	page
	Watches []*watch.Watch
	Pager   pager
}

var watchesTemplate = parse("watches")

func (b *board) watches(w http.ResponseWriter, r *http.Request) error {
	list, err := b.Watches.Troubled(r.Context(), r.URL.Query().Get("after"), listed+1)
	if err != nil {
		return err
	}
	p := watchesPage{page: b.page(r)}
	p.Watches, p.Pager = after(r, list, func(w *watch.Watch) string { return w.ID })
	return webpage.Show(w, r, http.StatusOK, watchesTemplate, p)
}

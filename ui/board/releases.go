package board

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/manager/roster"
)

// releasesPage lists the releases of the robot's program and their roll-out.
type releasesPage struct {
	page
	Releases []roster.Release
	Pager    pager
}

var releasesTemplate = parse("releases")

func (b *board) releases(w http.ResponseWriter, r *http.Request) error {
	all, err := b.Manager.Releases.List(r.Context())
	if err != nil {
		return err
	}
	p := releasesPage{page: b.page(r)}
	p.Releases, p.Pager = paged(r, all)
	return webpage.Show(w, r, http.StatusOK, releasesTemplate, p)
}

// rollOut stops the roll-out of a release, or lets it go on.
func (b *board) rollOut(w http.ResponseWriter, r *http.Request) error {
	form, err := problem.ReadForm(w, r)
	if err != nil {
		return err
	}
	counter, err1 := strconv.ParseInt(form.Get("counter"), 10, 64)
	percent, err2 := strconv.Atoi(form.Get("percent"))
	if err1 != nil || err2 != nil {
		return problem.New(http.StatusBadRequest, "bad_form", "counter and percent are no numbers")
	}
	stopped := ""
	switch form.Get("act") {
	case "stop":
		if stopped = form.Get("why"); stopped == "" {
			stopped = "stopped by " + by(r)
		}
	case "go":
	default:
		return problem.New(http.StatusBadRequest, "bad_form", "act is neither stop nor go")
	}
	audit.Note(r.Context(), audit.Row{Object: fmt.Sprintf("%s release %d, %d%%", form.Get("act"), counter, percent), Reason: stopped})
	err = b.Manager.Releases.Rollout(r.Context(), counter, percent, stopped)
	var bad roster.Bad
	switch {
	case errors.As(err, &bad):
		return problem.New(http.StatusBadRequest, "bad_form", bad.Error())
	case errors.Is(err, roster.ErrUnknown):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case err != nil:
		return err
	}
	b.Log.InfoContext(r.Context(), "operator changes a roll-out", "by", by(r), "release", counter, "percent", percent, "stopped", stopped)
	return back(w, pathReleases)
}

package board

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
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
	in, err := route.Form[releaseForm](w, r)
	if err != nil {
		return err
	}
	stopped := ""
	if in.Act == "stop" {
		stopped = cmp.Or(in.Why, "stopped by "+by(r))
	}
	audit.Note(r.Context(), audit.Row{Object: fmt.Sprintf("%s release %d, %d%%", in.Act, in.Counter, in.Percent), Reason: stopped})
	err = b.Manager.Releases.Rollout(r.Context(), in.Counter, in.Percent, stopped)
	var bad roster.Bad
	switch {
	case errors.As(err, &bad):
		return problem.New(http.StatusBadRequest, "bad_form", bad.Error())
	case errors.Is(err, roster.ErrUnknown):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case err != nil:
		return err
	}
	b.Log.InfoContext(r.Context(), "operator changes a roll-out", "by", by(r), "release", in.Counter, "percent", in.Percent, "stopped", stopped)
	return webpage.SeeOther(w, pathReleases)
}

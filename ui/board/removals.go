package board

import (
	"net/http"

	"sheaf/internal/audit"
	"sheaf/ui/removal"
)

// removalsPage lists site owners' requests for removal, by state.
type removalsPage struct {
	page
	Groups []removalGroup
}

// removalGroup has the requests of one state, the latest first.
type removalGroup struct {
	Name      string
	Decidable bool
	Requests  []removalLine
}

type removalLine struct {
	removal.Request
	History []removal.Event
}

const removalsListed = 100 // requests of each state

func (b *board) removals(r *http.Request) (any, error) {
	p := removalsPage{page: b.page(r)}
	names := map[removal.State]string{
		removal.Proved: p.T("Proved"), removal.Open: p.T("Not proved"), removal.Granted: p.T("Granted"), removal.Refused: p.T("Refused"), removal.Expired: p.T("Expired"),
	}
	for _, state := range removal.States() {
		list, err := b.Removals.List(r.Context(), removalsListed, state)
		if err != nil {
			return nil, err
		}
		g := removalGroup{Name: names[state], Decidable: state == removal.Proved || state == removal.Open}
		for _, one := range list {
			history, err := b.Removals.History(r.Context(), one.ID)
			if err != nil {
				return nil, err
			}
			g.Requests = append(g.Requests, removalLine{one, history})
		}
		if len(list) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	return p, nil
}

// decideRemoval grants or refuses a request.
func (b *board) decideRemoval(r *http.Request, in removalForm) (string, error) {
	decision := removal.Decision{Grant: in.Act == "grant", Reason: in.Reason, Unproved: in.Unproved != "", By: by(r)}
	audit.Note(r.Context(), audit.Row{Object: in.Act + " removal " + in.ID, Reason: decision.Reason})
	if _, err := b.Removals.Decide(r.Context(), in.ID, decision); err != nil {
		return "", removal.Problem(err)
	}
	return pathRemovals, nil
}

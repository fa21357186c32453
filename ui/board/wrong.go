package board

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/roster"
	"sheaf/serve/watch"
	"sheaf/ui/removal"
)

// Failure is something that is wrong now.
type Failure struct {
	Kind  string    `json:"kind"` // one of Kinds
	What  string    `json:"what"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"` // zero: not known
	Path  string    `json:"path,omitempty"` // path of the page that shows more
}

// Kinds of failures. A robot's trouble has KindRobot followed by the kind of the trouble.
const (
	KindCheck       = "check" // of /healthz
	KindDisk        = "disk"
	KindBuffer      = "buffer"
	KindQuarantine  = "quarantine"
	KindPublication = "publication"
	KindRollout     = "rollout"
	KindDamage      = "damage"
	KindCopy        = "copy"
	KindWatches     = "watches"
	KindRemovals    = "removals"
	KindRobot       = "robot-"
)

// Kinds returns all kinds of failures, including one for each of wire.Troubles.
func Kinds() []string {
	all := []string{KindCheck, KindDisk, KindBuffer, KindQuarantine, KindPublication, KindRollout, KindDamage, KindCopy, KindWatches, KindRemovals}
	for _, t := range wire.Troubles() {
		all = append(all, KindRobot+string(t))
	}
	return all
}

// WrongResponse answers GET /v1/admin/wrong.
type WrongResponse struct {
	Wrong []Failure `json:"wrong"`
}

// ListWrong returns the present failures.
var ListWrong = route.New[route.None, WrongResponse]("GET", api.PathAdminWrong, operators.Viewer, audit.None, "What is wrong now, as far as this process can tell by its roles: the list of the board's first page")

func (b *board) listWrong(ctx context.Context, _ route.None) (WrongResponse, error) {
	list, err := b.Wrong(ctx)
	return WrongResponse{append([]Failure{}, list...)}, err
}

// Wrong returns the present failures in English, as far as this process can tell by its roles.
func (b *board) Wrong(ctx context.Context) ([]Failure, error) {
	return b.wrong(ctx, webpage.Page{Site: b.Site, Lang: "en"})
}

// wrong returns the present failures in the reader's language. Page, command, API and metrics all
// use this list, and may only leave out parts of it.
func (b *board) wrong(ctx context.Context, p webpage.Page) (all []Failure, err error) {
	all = b.Failing(ctx)
	for _, d := range b.disks(p) {
		if d.Wrong {
			all = append(all, Failure{Kind: KindDisk, What: p.T("%s: %.0f %% full", d.Name, d.Full), Why: p.T("uploads stop before it is full"), Path: pathStore + "#disks"})
		}
	}
	for _, look := range []func(context.Context, webpage.Page) ([]Failure, error){b.wrongRobots, b.wrongReleases, b.wrongBuffers, b.wrongStore, b.wrongRemovals, b.wrongWatches} {
		found, err := look(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (b *board) wrongRobots(ctx context.Context, p webpage.Page) (all []Failure, err error) {
	if b.Manager == nil {
		return nil, nil
	}
	robots, err := b.Manager.Roster.Summaries(ctx)
	for _, one := range robots {
		all = append(all, robotFailures(p, one)...)
	}
	return all, err
}

func robotFailures(p webpage.Page, one roster.Robot) (all []Failure) {
	for _, t := range one.Troubles {
		why := cmp.Or(t.Detail, p.T("last seen %s", p.Clock(one.Seen)))
		all = append(all, Failure{KindRobot + string(t.Kind), p.T("robot %s: %s", one.Name, troubleName(p, t.Kind)), why, t.Since, pathRobots + "/" + one.Name})
	}
	return all
}

func (b *board) wrongReleases(ctx context.Context, p webpage.Page) ([]Failure, error) {
	if b.Manager == nil {
		return nil, nil
	}
	newest, err := b.Manager.Releases.Stopped(ctx)
	if err != nil || newest == nil {
		return nil, err
	}
	return []Failure{{Kind: KindRollout, What: p.T("the roll-out of release %d is stopped", newest.Counter), Why: newest.Stopped, Path: pathReleases}}, nil
}

func (b *board) wrongBuffers(ctx context.Context, p webpage.Page) (all []Failure, err error) {
	if b.Ingest == nil {
		return nil, nil
	}
	list, err := b.Ingest.Buffers(ctx)
	for _, one := range list {
		oldest, name, path := oldest(one), StateName(p, one.State), pathBatches+"?state="+string(one.State)
		f := Failure{Path: path, Since: time.Now().Add(-oldest).Truncate(time.Second)}
		switch {
		case one.State == wire.StatePublished, one.Batches == 0:
			continue
		case one.State == wire.StateQuarantined:
			f.Kind, f.What, f.Why = KindQuarantine, p.N("%s batch is in the quarantine", "%s batches are in the quarantine", one.Batches), p.T("to be released or discarded")
		case one.State == wire.StatePostSplit && oldest > unpublished:
			f.Kind, f.What, f.Why, f.Path = KindPublication, p.T("a batch has waited for its publication for %s", p.Took(oldest)), p.T("look at the window, or publish now"), pathStore
		case one.State != wire.StatePostSplit && oldest > WaitsTooLong:
			f.Kind, f.What, f.Why = KindBuffer, p.T("a batch has been in %q for %s", name, p.Took(oldest)), p.T("its page says why")
		default:
			continue
		}
		all = append(all, f)
	}
	return all, err
}

// oldest returns how long the oldest batch has been in its buffer.
func oldest(b inbox.Buffer) time.Duration { return time.Duration(b.Oldest * float64(time.Second)) }

// wrongStore returns the failures that verifying the store has found.
func (b *board) wrongStore(ctx context.Context, p webpage.Page) (all []Failure, err error) {
	if b.Scrub == nil {
		return nil, nil
	}
	s, err := b.Scrub(ctx)
	if err != nil {
		return nil, err
	}
	add := func(kind, what, why string, since time.Time) {
		all = append(all, Failure{kind, what, why, since, pathStore + "#verified"})
	}
	if n := len(s.Lost); n > 0 {
		add(KindDamage, p.N("%s stored host is damaged", "%s stored hosts are damaged", n), s.Lost[0], time.Time{})
	}
	if s.Problems > 0 {
		add(KindDamage, p.T("the catalog and the store do not agree"), p.T("sheaf fsck says where"), time.Time{})
	}
	if since := s.CopySince(); b.Copy != "" && !since.IsZero() && time.Since(since) > copyLate {
		add(KindCopy, p.T("the second copy of the store is behind"), p.T("the log says why"), since)
	}
	return all, nil
}

// wrongRemovals returns a failure if requests of owners of sites wait for a decision.
func (b *board) wrongRemovals(ctx context.Context, p webpage.Page) ([]Failure, error) {
	if b.Removals == nil {
		return nil, nil
	}
	list, err := b.Removals.List(ctx, mostWaiting, removal.Proved)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Failure{{Kind: KindRemovals, What: p.N("%s owner of a site waits for a decision", "%s owners of sites wait for a decision", len(list)), Why: p.T("grant or refuse what they ask for"), Path: pathRemovals}}, nil
}

func (b *board) wrongWatches(ctx context.Context, p webpage.Page) ([]Failure, error) {
	if b.Watches == nil {
		return nil, nil
	}
	some, err := b.Watches.Troubled(ctx, "", listed)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	return []Failure{{Kind: KindWatches, What: p.N("%s watch fails", "%s watches fail", len(some)), Why: p.T("mails or webhooks are not taken"), Path: pathWatches}}, nil
}

// advice tells what to do about a failure: a sentence of the runbook, and one button.
type advice struct {
	Failure
	Says   string // empty: the runbook has no sentence
	Button string // empty: there is no button
	To     string // the page to which the button leads, or to which its form is sent
	Act    string // value of the form; empty: the button is a link, or the form needs none
	Form   bool
}

// says returns the runbook's sentence for a kind of failure. A test checks that docs/runbook.md has
// each sentence.
func (p page) says(kind string) string {
	var other string
	if strings.HasPrefix(kind, KindRobot) {
		other = p.T("Tell the people at the site; a mail address as the robot's contact is written to by itself.")
	}
	return cmp.Or(map[string]string{
		KindCheck:                              p.T("Bring back what does not answer; the service goes on by itself."),
		KindDisk:                               p.T("Decide about old batches in the quarantine; each holds its file. Run sheaf gc."),
		KindBuffer:                             p.T("sheaf batch ls --state pre-split, then sheaf batch show ID: it has the last error."),
		KindQuarantine:                         p.T("The alert ends when every batch is released or discarded."),
		KindPublication:                        p.T("sheaf batch publish publishes now, and else the next window does."),
		KindRollout:                            p.T("Publish a better release, which ends the alert, or let it go on: sheaf release rollout COUNTER --percent N."),
		KindDamage:                             p.T("Put the disk right first. Then sheaf fsck --repair ADDRESS with any copy that you have, a backup of the object store too."),
		KindCopy:                               p.T("Nothing is lost meanwhile; the copy goes on where it was."),
		KindWatches:                            p.T("If all mails fail, look at watch.mail: server, credentials, certificate. A webhook that fails alone is its owner's to put right."),
		KindRemovals:                           p.T("Grant or refuse it there. A refusal needs a reason, which the asker is told."),
		KindRobot + string(wire.TroubleSilent): p.T("Ask the people at the site: robotd status and robotd check there say what is wrong."),
	}[kind], other)
}

// ReasonSays returns the runbook's sentences for a reason of the quarantine. A test looks each of
// them up in docs/runbook.md.
func (p page) ReasonSays(reason wire.Reason) string {
	return map[wire.Reason]string{
		wire.ReasonSHAMismatch:     p.T("Wait: a whole copy takes the place of this one. Do not discard it before, since that uses up the ID."),
		wire.ReasonTruncated:       p.T("Send it again under a new name. Discard the part."),
		wire.ReasonCorruptMember:   p.T("A robot's batch points to a fault in its program or memory: keep the file, tell the developers, and go back to the release before if there is one."),
		wire.ReasonHostNotAssigned: p.T("If the robot is honest and the pages are wanted, release it: this check is then waived for the batch."),
		wire.ReasonPathEscape:      p.T("Ask where the file comes from. Pack a foreign one again with plain paths."),
		wire.ReasonLinkEntry:       p.T("Pack the files themselves (tar --dereference --hard-dereference) and import it again; discard this one."),
		wire.ReasonBombRatio:       p.T("Discard it. If it is an import that you trust, import it in parts, or raise import.max_bytes."),
		wire.ReasonIDReuse:         p.T("Discard it. Stop the second robot; let it join as a robot of its own, with an empty folder."),
		wire.ReasonBadSignature:    p.T("Discard it. If the site replaced the key, it restores the old one or joins with a new token."),
		wire.ReasonClock:           p.T("Have the wrong clock set (NTP). Then release the batch, if its dates are good enough: the check is waived for it."),
		wire.ReasonForeign:         p.T("Give a map of folders and hosts (drop.hosts, or sheaf archive import --hosts) and send it again under a new name. Discard this one."),
	}[reason]
}

// advise adds to a failure what to do about it. If the reader's role allows it, the button carries
// the advice out. Otherwise it leads to the page that shows more.
func (p page) advise(f Failure) advice {
	a := advice{Failure: f, Says: p.says(f.Kind), Button: p.T("Look"), To: f.Path}
	act := func(button, to, act string) {
		if p.May(operators.Worker) {
			a.Button, a.To, a.Act, a.Form = button, to, act, true
		}
	}
	switch f.Kind {
	case KindQuarantine, KindRemovals:
		a.Button = p.T("Decide")
	case KindPublication:
		act(p.T("Publish now"), pathPublish, "")
	case KindRobot + string(wire.TroubleOld):
		act(p.T("Look for its release now"), f.Path, "upgrade")
	}
	if a.To == "" {
		a.Button = ""
	}
	return a
}

// watchesPage lists the watches whose changes could not be delivered.
type watchesPage struct {
	page
	Watches []*watch.Watch
	Pager   pager
}

func (b *board) watches(r *http.Request) (any, error) {
	list, err := b.Watches.Troubled(r.Context(), r.URL.Query().Get("after"), listed+1)
	if err != nil {
		return nil, err
	}
	p := watchesPage{page: b.page(r)}
	p.Watches, p.Pager = after(r, list, func(w *watch.Watch) string { return w.ID })
	return p, nil
}

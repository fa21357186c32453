package results

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/serve/tree"
)

// currentLease is the name of the lease under which the volumes are made.
const currentLease = "current"

// kept is the number of editions whose volumes each domain keeps, so that a download from the
// edition before the newest can finish.
const kept = 2

// CurrentOptions are the settings of a CurrentMaker. All fields but Domains are required.
type CurrentOptions struct {
	Tree    *tree.Tree
	Store   store.Store
	Leases  lease.Locker
	Domains []string      // top-level domains, such as jp; other domains' volumes are deleted
	Every   time.Duration // how old a domain's newest volumes get before the next are made
	Look    time.Duration // between two looks at the catalog, at least
	Log     *slog.Logger
}

// CurrentMaker makes volumes of the latest versions while Run runs. They are measured as
// tree.Everybody sees them. Another view of a volume is measured when an account opens it.
type CurrentMaker struct {
	opt     CurrentOptions
	due     time.Time // before that there is nothing to do
	edition string    // the newest edition, of which all domains have volumes; "": not known
}

// NewCurrentMaker returns a CurrentMaker, which makes nothing before Run or Update.
func NewCurrentMaker(opt CurrentOptions) *CurrentMaker { return &CurrentMaker{opt: opt} }

// Run follows the catalog until ctx ends. After each volume it sleeps for as long as that took, so
// half of the time is for other work. A failure is logged, and the work repeated at the next look.
// Run returns nil.
func (m *CurrentMaker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.Update(ctx, loop.Sleep); err != nil && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, "volumes of the latest versions: making them failed and will be repeated", "err", err)
		}
		_ = loop.Sleep(ctx, m.opt.Look) // the loop looks at ctx
	}
	return nil
}

// Update makes the volumes that are due, and deletes those that are not wanted any more. After each
// volume it calls between. It must not be called concurrently.
func (m *CurrentMaker) Update(ctx context.Context, between func(context.Context, time.Duration) error) error {
	if time.Now().Before(m.due) {
		return nil
	}
	newest, _, err := m.opt.Tree.Newest(ctx, tree.Everybody)
	if err != nil || newest == "" || newest == m.edition {
		return err
	}
	err = m.opt.Leases.Do(ctx, currentLease, func(ctx context.Context, _ int64) error { return m.update(ctx, between) })
	if err != nil {
		m.due, m.edition = time.Time{}, ""
	}
	return err
}

func (m *CurrentMaker) update(ctx context.Context, between func(context.Context, time.Duration) error) error {
	complete, begun, err := tree.StoredCurrents(ctx, m.opt.Store)
	if err != nil {
		return err
	}
	all, err := m.opt.Tree.Editions(ctx)
	if err != nil {
		return err
	}
	var editions []string // the oldest first
	for _, ed := range all {
		editions = append(editions, ed.Name)
	}
	slices.SortFunc(complete, func(a, b tree.Current) int { return a.Made.Compare(b.Made) })
	m.due, m.edition = time.Now().Add(m.opt.Every), editions[len(editions)-1]
	var wanted []tree.Current
	for _, domain := range m.opt.Domains {
		var of []tree.Current
		for _, c := range complete {
			if c.Domain == domain {
				of = append(of, c)
			}
		}
		of, err = m.domain(ctx, domain, editions, of, begun, between)
		if err != nil {
			return err
		}
		wanted = append(wanted, of[max(0, len(of)-kept):]...)
	}
	for _, c := range slices.Concat(complete, begun) {
		if slices.ContainsFunc(wanted, c.Same) {
			continue
		}
		if err := tree.DeleteCurrent(ctx, m.opt.Store, c); err != nil {
			return err
		}
	}
	return nil
}

// domain makes the volumes of a domain if they are due, and goes on with volumes that were begun.
// It returns the domain's volumes.
func (m *CurrentMaker) domain(ctx context.Context, domain string, editions []string, of, begun []tree.Current, between func(context.Context, time.Duration) error) ([]tree.Current, error) {
	edition, newest := editions[len(editions)-1], tree.Current{}
	if len(of) > 0 {
		newest = of[len(of)-1]
	}
	next := newest.Made.Add(m.opt.Every)
	if time.Now().Before(next) {
		if next.Before(m.due) {
			m.due = next
		}
		if newest.Edition != edition {
			m.edition = ""
		}
		return of, nil
	}
	if newest.Edition == edition {
		m.due = time.Time{} // once there is a newer edition
		return of, nil
	}
	// What was begun goes on with its edition, unless newest is of that edition or a later one:
	// then it is to be deleted.
	for _, c := range begun {
		if c.Domain == domain && slices.Index(editions, c.Edition) > slices.Index(editions, newest.Edition) {
			edition, m.edition = c.Edition, ""
		}
	}
	start := time.Now()
	made, err := m.opt.Tree.MakeCurrent(ctx, tree.Everybody, edition, domain, newest, between)
	if err != nil {
		return nil, err
	}
	m.opt.Log.InfoContext(ctx, "volumes of the latest versions made", "edition", edition, "domain", domain, "volumes", len(made.Ends), "took", time.Since(start))
	return append(of, made), nil
}

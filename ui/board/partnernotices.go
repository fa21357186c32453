package board

import (
	"context"
	"database/sql"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/loop"
	"sheaf/internal/mailer"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/roster"
)

const (
	lookEvery  = time.Minute
	tellAfter  = time.Hour // a site is told of a trouble after this time; of silence at once, because it is only noted late
	mostStuck  = 1000      // batches of one state that are read
	ruleLength = 60        // dashes between the two languages of a mail
)

// Run calls Look every minute until ctx ends.
func (s *Partners) Run(ctx context.Context) error {
	look := func(ctx context.Context) error { return s.Look(ctx, time.Now()) }
	return loop.Every(ctx, lookEvery, look, func(err error) { s.opt.Log.ErrorContext(ctx, "robots' troubles could not be looked for", "err", err) })
}

// Look records which robots are silent or stuck now, and tells their sites what has begun and what
// is over. Several processes may call it at once.
func (s *Partners) Look(ctx context.Context, now time.Time) error {
	robots, err := s.opt.Manager.Roster.Robots(ctx)
	if err != nil {
		return err
	}
	stuck, err := s.stuck(ctx, now)
	if err != nil {
		return err
	}
	names := make(map[string]bool)
	for _, r := range robots {
		names[r.Name] = r.Revoked.IsZero() && !r.Joined.IsZero()
		found := make(map[wire.Trouble]string)
		if names[r.Name] && !r.Lapsed.IsZero() {
			found[wire.TroubleSilent] = ""
		}
		if id := stuck[r.Name]; id != "" && names[r.Name] {
			found[wire.TroubleBatch] = id
		}
		if err := s.opt.Manager.Roster.NoteTroubles(ctx, r.Name, []wire.Trouble{wire.TroubleSilent, wire.TroubleBatch}, found); err != nil {
			return err
		}
	}
	list, err := s.opt.Manager.Roster.Troubles(ctx)
	if err != nil {
		return err
	}
	byRobot := make(map[string][]roster.Trouble)
	for _, t := range list {
		if !t.Ended.IsZero() || t.Told.IsZero() && (t.Kind == wire.TroubleSilent || now.Sub(t.Since) >= tellAfter) {
			byRobot[t.Robot] = append(byRobot[t.Robot], t)
		}
	}
	for robot, list := range byRobot {
		if err := s.tell(ctx, robot, names[robot], list); err != nil {
			return err
		}
	}
	return nil
}

// stuck returns, by robot, the ID of a batch that is stuck: for longer than WaitsTooLong it has
// waited to be verified or split, or for a decision in the quarantine.
func (s *Partners) stuck(ctx context.Context, now time.Time) (map[string]string, error) {
	found := make(map[string]string)
	for _, state := range []wire.State{wire.StateReceived, wire.StatePreSplit, wire.StateQuarantined} {
		list, err := s.batches.List(ctx, inbox.Filter{State: state, Limit: mostStuck})
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			if now.Sub(b.Entered) > WaitsTooLong && b.Decision == "" {
				found[b.Robot] = b.ID
			}
		}
	}
	return found, nil
}

// tell mails to a robot's site what has begun and what is over, and records that it was told. It
// mails nothing without Notices, for a revoked robot, or to a contact that is no mail address.
func (s *Partners) tell(ctx context.Context, robot string, active bool, list []roster.Trouble) error {
	contact, err := s.opt.Manager.Roster.Contact(ctx, robot)
	if err != nil {
		return err
	}
	path, err := s.opt.Manager.Roster.Page(ctx, robot)
	if err != nil {
		return err
	}
	to, err := mail.ParseAddress(strings.TrimPrefix(contact, "mailto:"))
	var begun, over []roster.Trouble
	for _, t := range list {
		switch {
		case t.Ended.IsZero():
			begun = append(begun, t)
		case !t.Told.IsZero():
			over = append(over, t)
		}
	}
	write := s.opt.Notices && active && err == nil && len(begun)+len(over) > 0
	err = s.opt.Manager.Roster.SettleTroubles(ctx, list, func(tx *sql.Tx) error {
		if !write {
			return nil
		}
		s.opt.Log.InfoContext(ctx, "a robot's site is told", "robot", robot, "begun", len(begun), "over", len(over))
		return s.opt.Mails.Add(ctx, tx, s.letter(to.Address, robot, s.opt.Base+path, begun, over))
	})
	s.opt.Mails.Hurry()
	return err
}

// letter makes a mail in both languages, because the site's language is not known.
func (s *Partners) letter(to, robot, page string, begun, over []roster.Trouble) mailer.Letter {
	var text strings.Builder
	var subjects []string
	for _, lang := range []string{"en", "ja"} {
		p := webpage.Page{Site: s.opt.Site, Lang: lang}
		subject := p.T("Robot %s is well again", robot)
		if len(begun) > 0 {
			subject = p.T("Robot %s is stuck", robot)
		}
		subjects = append(subjects, subject)
		if text.Len() > 0 {
			text.WriteString("\n" + strings.Repeat("-", ruleLength) + "\n\n")
		}
		fmt.Fprintf(&text, "%s\n\n", subject)
		for _, t := range begun {
			fmt.Fprintf(&text, "* %s\n  %s\n\n", trouble(p, t), p.T("Since %s.", p.Clock(t.Since)))
		}
		for _, t := range over {
			fmt.Fprintf(&text, "* %s %s\n\n", p.T("Over:"), trouble(p, t))
		}
		fmt.Fprintf(&text, "%s\n%s\n", p.T("Its page:"), page)
		if p.Contact != "" {
			fmt.Fprintf(&text, "%s %s\n", p.T("To reach us:"), p.Contact)
		}
	}
	return mailer.Letter{To: to, Subject: strings.Join(subjects, " / "), Text: text.String()}
}

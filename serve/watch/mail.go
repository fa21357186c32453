package watch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/template"
	"time"

	"github.com/wneessen/go-mail"

	"sheaf/internal/api"
	"sheaf/internal/mailer"
)

// letterKey groups deliveries into mails: all for one address of an account go into one mail.
type letterKey struct {
	account, email string
	confirms       bool
	watch          string // of a confirmation, which has a mail of its own; empty: other mails
}

// letter is a mail that is being put together.
type letter struct {
	to    string
	of    []delivery
	items []item
}

type item struct {
	*Notice        // nil: a request to confirm
	Watch   string // its title
	Link    string // ends the mails, or confirms
}

// mails composes mails, and gives them to the mail server.
type mails struct {
	table  *table
	server *mailer.Server // nil: none
	zone   *time.Location
}

// add adds a delivery to a letter. If its notice was deleted, the letter does not show it.
func (s *mails) add(ctx context.Context, l *letter, d delivery) error {
	w := d.of
	l.of = append(l.of, d)
	if d.notice == "" {
		l.items = append(l.items, item{Watch: mailer.OneLine(w.Title()), Link: s.table.base + api.PathWatches + "/" + w.ID + "/confirm/" + w.confirm})
		return nil
	}
	n, err := s.table.notice(ctx, d.notice)
	if err != nil || n == nil {
		return err
	}
	l.items = append(l.items, item{n, mailer.OneLine(w.Title()), s.table.base + api.PathWatches + "/" + w.ID + "/stop/" + w.token(purposeStop)})
	return nil
}

// shown is how many pages a mail lists at most.
const shown = 100

var noticeText = template.Must(template.New("notice").Funcs(template.FuncMap{
	"time": func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
}).Parse(`{{range .Shown}}{{with .Title}}{{.}}
{{end}}{{.What}}: {{.URL}}
  visited {{time .At}}{{if not .Before.IsZero}}, before that {{time .Before}}{{end}}
{{with .Page}}  page        {{.}}
{{end}}{{with .Diff}}  differences {{.}}
{{end}}  versions    {{.Stored}}

{{end}}{{with .More}}and {{.}} more

{{end}}{{range .Stop}}No more mails about {{.Watch}}:
  {{.Link}}
{{end}}`))

var confirmText = template.Must(template.New("confirm").Parse(`Somebody, most likely you, asked the archive at {{.Base}}
to send mails to this address when this changes:

  {{.Title}}

If you want them, open this link:

  {{.Link}}

If not, do nothing: no other mail will come.
`))

// compose writes a letter. It returns nil if all its notices were deleted.
func (s *mails) compose(l *letter) (*mail.Msg, error) {
	if len(l.items) == 0 {
		return nil, nil
	}
	first := l.items[0]
	id := l.of[0].id + "." + strconv.Itoa(len(l.of))
	if first.Notice == nil {
		m, err := s.server.New(id, l.to, "Please confirm: mails about "+first.Watch)
		if err != nil {
			return nil, err
		}
		return m, m.SetBodyTextTemplate(confirmText, map[string]string{"Base": s.table.base, "Title": first.Watch, "Link": first.Link})
	}
	subject := string(first.What) + ": " + first.name()
	if len(l.items) > 1 {
		subject = fmt.Sprintf("%d changes, among them %s", len(l.items), first.name())
	}
	m, err := s.server.New(id, l.to, subject)
	if err != nil {
		return nil, err
	}
	if l.sameWatch() { // one click ends it (RFC 8058)
		m.SetGenHeader("List-Unsubscribe", "<"+first.Link+">")
		m.SetGenHeader("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
	}
	for i := range l.items {
		n := l.items[i].Notice
		n.At, n.Before = n.At.In(s.zone), inZone(n.Before, s.zone)
	}
	return m, m.SetBodyTextTemplate(noticeText, map[string]any{
		"Shown": l.items[:min(len(l.items), shown)], "More": max(len(l.items)-shown, 0), "Stop": l.ends(),
	})
}

func inZone(t time.Time, zone *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(zone)
}

func (l *letter) sameWatch() bool { return len(l.ends()) == 1 }

// ends returns one item for each watch of a letter.
func (l *letter) ends() (list []item) {
	seen := make(map[string]bool)
	for _, i := range l.items {
		if !seen[i.Link] {
			seen[i.Link] = true
			list = append(list, i)
		}
	}
	return list
}

// send gives a letter to the mail server. It fails with a refusal if the server refuses the letter
// for good.
func (s *mails) send(ctx context.Context, l *letter) error {
	if s.server == nil {
		return errors.New("no mail server is set")
	}
	m, err := s.compose(l)
	if err != nil || m == nil {
		return err
	}
	err = s.server.Send(ctx, m)
	if final, ok := errors.AsType[*mailer.Refused](err); ok {
		return &refusal{final.Err}
	}
	return err
}

package watch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"sheaf/internal/api"
)

// Mail says how mails are sent.
type Mail struct {
	Server   string // host and port of the SMTP server
	From     string // sender address
	User     string // for the login; empty: no login
	Password string
	TLS      TLS           // default StartTLS
	Patience time.Duration // limit for sending one mail; default a minute
	Roots    string        // file with the root certificates for the server; empty: the system's
}

// TLS is how the connection to the mail server is encrypted.
type TLS string

const (
	StartTLS TLS = "starttls" // must be offered
	Implicit TLS = "tls"      // from the first byte, port 465
	NoTLS    TLS = "none"     // a server on this machine
)

const defaultPatience = time.Minute

// letterKey says which deliveries go into one mail: all for one address of an account.
type letterKey struct {
	account, email string
	confirms       bool
	watch          string // for a confirmation: each watch has a mail of its own
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

// mails sends mails.
type mails struct {
	table  *table
	server *Mail // nil: none
	zone   *time.Location
	log    *slog.Logger
}

// add adds a delivery to a letter.
func (s *mails) add(ctx context.Context, l *letter, w *Watch, d delivery) error {
	l.of = append(l.of, d)
	if d.notice == "" {
		l.items = append(l.items, item{Watch: oneLine(w.Title()), Link: s.table.base + api.PathWatches + "/" + w.ID + "/confirm/" + w.confirm})
		return nil
	}
	n, err := s.table.notice(ctx, d.notice)
	if err != nil || n == nil {
		return err
	}
	l.items = append(l.items, item{n, oneLine(w.Title()), s.table.base + api.PathWatches + "/" + w.ID + "/stop/" + w.token(purposeStop)})
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
	m := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8))
	if err := m.From(s.server.From); err != nil {
		return nil, err
	}
	if err := m.To(l.to); err != nil {
		return nil, &refusal{err}
	}
	m.SetDate()
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	domain := s.server.From[strings.LastIndexByte(s.server.From, '@')+1:]
	m.SetMessageIDWithValue(l.of[0].id + "." + strconv.Itoa(len(l.of)) + "@" + domain)
	first := l.items[0]
	if first.Notice == nil {
		m.Subject("Please confirm: mails about " + first.Watch)
		return m, m.SetBodyTextTemplate(confirmText, map[string]string{"Base": s.table.base, "Title": first.Watch, "Link": first.Link})
	}
	subject := string(first.What) + ": " + first.name()
	if len(l.items) > 1 {
		subject = fmt.Sprintf("%d changes, among them %s", len(l.items), first.name())
	}
	m.Subject(oneLine(subject))
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

// oneLine returns a text as one short line of whole characters, without control characters.
func oneLine(s string) string {
	const most = 200
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	for i := range s {
		if i > most {
			s = s[:i] + "…"
			break
		}
	}
	return strings.Join(strings.Fields(s), " ")
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

// send gives a letter to the mail server.
func (s *mails) send(ctx context.Context, l *letter) error {
	if s.server == nil {
		return errors.New("no mail server is set")
	}
	m, err := s.compose(l)
	if err != nil || m == nil {
		return err
	}
	client, err := s.server.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.server.patience())
	defer cancel()
	if err := client.DialWithContext(ctx); err != nil {
		return err
	}
	err = client.Send(m)
	if bye := client.Close(); bye != nil {
		s.log.DebugContext(ctx, "watch: the mail server did not answer QUIT", "err", bye)
	}
	if m.IsDelivered() { // the server has accepted it, whatever it did then
		return nil
	}
	var failed *mail.SendError
	if errors.As(err, &failed) && failed.ErrorCode()/100 == 5 && slices.Contains(lettersFault, failed.Reason) {
		return &refusal{err}
	}
	return err
}

// lettersFault are the steps at which a permanent refusal (5xx, RFC 5321 4.2.1) is about this
// letter. A refusal of an earlier step, the login or the sender, is for the operator to mend:
// letters wait.
var lettersFault = []mail.SendErrReason{mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose}

func (m *Mail) patience() time.Duration {
	if m == nil {
		return 0
	}
	return cmp.Or(m.Patience, defaultPatience)
}

func (m *Mail) client() (*mail.Client, error) {
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	options := []mail.Option{mail.WithPort(n), mail.WithTimeout(m.patience())}
	if m.Roots != "" {
		roots, err := os.ReadFile(m.Roots)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("%s holds no certificate", m.Roots)
		}
		options = append(options, mail.WithTLSConfig(&tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12}))
	}
	switch m.TLS {
	case NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case Implicit:
		options = append(options, mail.WithSSL())
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.User), mail.WithPassword(m.Password))
		if m.TLS == NoTLS {
			options = append(options, mail.WithSMTPAuth(mail.SMTPAuthPlainNoEnc))
		}
	}
	return mail.NewClient(host, options...)
}

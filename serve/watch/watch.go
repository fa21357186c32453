package watch

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/weburl"
)

// Kind says what is watched.
type Kind string

const (
	URL    Kind = "url"
	Prefix Kind = "prefix" // all pages whose URL begins with it
	Host   Kind = "host"
)

// Cadence is how often mails are sent at most.
type Cadence string

const (
	EachChange Cadence = "change"
	Hourly     Cadence = "hour"
	Daily      Cadence = "day"
)

// Collection says whether robots visit a watched host. A host that is not known when somebody
// begins to watch it is entered by a manager, within a minute, as if a robot had found it.
type Collection string

const (
	Collected Collection = "collected" // a robot has the host
	Accepted  Collection = "accepted"  // no robot has it yet
	Pending   Collection = "pending"   // an operator has to decide
	Refused   Collection = "refused"   // it is not collected
	Requested Collection = "requested" // no manager has entered it yet
)

// Watch is one consumer's request to be told of changes.
type Watch struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Kind    Kind      `json:"kind"`
	Host    string    `json:"host"`
	URL     string    `json:"url"`               // as the archive keeps it; for a host its first page
	Address string    `json:"address,omitempty"` // for a form: where its fields are sent
	Body    string    `json:"body,omitempty"`    // for a form: its fields
	Media   string    `json:"media,omitempty"`
	Email   string    `json:"email,omitempty"`
	Every   Cadence   `json:"every,omitempty"`
	Waiting bool      `json:"waiting,omitempty"` // the address is not confirmed yet; no mail is sent before
	Webhook string    `json:"webhook,omitempty"`
	Secret  string    `json:"secret,omitempty"` // key with which the webhook's calls are signed
	Created time.Time `json:"created"`

	// Once says that the watch only asks for one visit, as soon as the host's interval allows.
	// Saved is the visit's time; zero until the visit is published. Then the watch asks for nothing
	// more.
	Once  bool      `json:"once,omitempty"`
	Saved time.Time `json:"saved,omitzero"`

	Collection Collection `json:"collection"` // of the host

	Troubles

	confirm string
}

// Troubles are what keeps a consumer from being told.
type Troubles struct {
	// Why no more mails are sent, or calls made: the other side has refused them for good. A new
	// watch tries again.
	MailStopped string    `json:"mail_stopped,omitempty"`
	HookStopped string    `json:"webhook_stopped,omitempty"`
	Failing     []Failing `json:"failing,omitempty"` // what could not be delivered yet, or was given up
}

// WatchList is the answer of GET /v1/watches, oldest first.
type WatchList struct {
	Watches []*Watch `json:"watches"`
}

// WatchDocument is the answer of GET /v1/watches/<id>.
type WatchDocument struct {
	*Watch
	Notices []*Notice `json:"notices"` // the latest, newest first
}

// Failing counts the recent notices of a watch that one channel could not deliver.
type Failing struct {
	By      string    `json:"by"`            // mail or webhook
	Waiting int       `json:"waiting"`       // notices that will be tried again
	GivenUp int       `json:"given_up"`      // notices that will not: after some three days, or because they were refused
	Next    time.Time `json:"next,omitzero"` // time of the next try
	Error   string    `json:"error"`         // of the last try
}

// Wish is what a consumer asks for.
type Wish struct {
	URL    string `json:"url,omitempty"`    // one of these three
	Prefix string `json:"prefix,omitempty"` //
	Host   string `json:"host,omitempty"`   //

	Body    string  `json:"body,omitempty" doc:"form fields to send by POST: watch the answer of a form"`
	Media   string  `json:"media,omitempty" doc:"media type of the body (default that of a form)"`
	Email   string  `json:"email,omitempty" doc:"send mails to this address"`
	Every   Cadence `json:"every,omitempty" doc:"how often mails are sent: change, hour or day"`
	Webhook string  `json:"webhook,omitempty" doc:"call this URL at each change"`
	Once    bool    `json:"once,omitempty" doc:"only have the page saved now, and be told of nothing"`
}

// ErrWish says that a wish is not valid.
var ErrWish = errors.New("watch")

// Limits for a wish, in bytes.
const (
	maxBody    = 16 << 10
	maxAddress = 254 // of mail
	maxHook    = 2048
)

const formMedia = "application/x-www-form-urlencoded"

// badWish returns an ErrWish that says what is wrong.
func badWish(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWish, fmt.Sprintf(format, args...))
}

// watch returns the watch that a wish asks for. It fails with ErrWish.
func (w *Wish) watch() (*Watch, error) {
	out := &Watch{Email: w.Email, Every: w.Every, Webhook: w.Webhook, Once: w.Once}
	target, err := w.target(out)
	if err == nil {
		err = w.page(out, target)
	}
	if err == nil {
		err = w.notices(out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// target sets what is watched, and returns its URL as given, in normal form.
func (w *Wish) target(out *Watch) (string, error) {
	var given string
	named := 0
	for kind, s := range map[Kind]string{URL: w.URL, Prefix: w.Prefix, Host: w.Host} {
		if s != "" {
			out.Kind, given = kind, s
			named++
		}
	}
	if named != 1 {
		return "", badWish("give one of url, prefix and host, not %d of them", named)
	}
	if out.Kind == Host && !strings.Contains(given, "://") {
		given = "http://" + given + "/"
	}
	target, err := weburl.Parse("", given, nil)
	if err != nil {
		return "", badWish("%s %.200q: %v", out.Kind, given, err)
	}
	if out.Host, err = naming.HostOf(target); err != nil {
		return "", badWish("%s %.200q: %v", out.Kind, given, err)
	}
	out.URL = weburl.Canonical(target) // as robots keep it, without session IDs
	return target, nil
}

// page sets the address and the form of a watch of one page.
func (w *Wish) page(out *Watch, target string) error {
	switch {
	case w.Body != "" && out.Kind != URL:
		return badWish("a form's fields go with a url, not with a %s", out.Kind)
	case len(w.Body) > maxBody:
		return badWish("%d bytes of fields, at most %d are taken", len(w.Body), maxBody)
	case w.Body != "":
		out.Address, out.Body, out.Media = target, w.Body, cmp.Or(w.Media, formMedia)
		if strings.ContainsAny(out.Media, "\r\n") || len(out.Media) > 100 {
			return badWish("media %.100q is not a media type", out.Media)
		}
		if out.URL = weburl.Canonical(FormURL(target, out.Media, w.Body)); len(out.URL) > naming.MaxURL {
			return badWish("address and fields have %d bytes together, at most %d are kept", len(out.URL), naming.MaxURL)
		}
	case out.Kind == URL:
		out.Address = out.URL
	}
	return nil
}

// notices checks how the consumer is told, and sets how often mails come.
func (w *Wish) notices(out *Watch) error {
	if w.Once && (out.Kind != URL || w.Email != "" || w.Every != "" || w.Webhook != "") {
		return badWish("once saves one url, and nothing is told of it: leave out prefix, host, email, every and webhook")
	}
	if w.Email != "" {
		if a, err := mail.ParseAddress(w.Email); err != nil || a.Address != w.Email || len(w.Email) > maxAddress {
			return badWish("email %.100q is not a bare address such as name@example.jp", w.Email)
		}
		switch w.Every {
		case "":
			out.Every = EachChange
		case EachChange, Hourly, Daily:
		default:
			return badWish("every %.20q: want %s, %s or %s", w.Every, EachChange, Hourly, Daily)
		}
	} else if w.Every != "" {
		return badWish("every %.20q is how often mails come, and there is no email", w.Every)
	}
	if w.Webhook != "" {
		u, err := url.Parse(w.Webhook)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(w.Webhook) > maxHook {
			return badWish("webhook %.100q: want an http or https URL without a name and password", w.Webhook)
		}
	}
	return nil
}

// FormURL returns the URL under which the answer to a form is kept: the form's own with the method
// and the fields behind it, as in pywb's index ("url?__wb_method=POST&name=value"). If the fields
// are not of a form's media type, they have no names, and their digest is used instead.
func FormURL(address, media, body string) string {
	fields := body
	if kind, _, _ := strings.Cut(media, ";"); !strings.EqualFold(strings.TrimSpace(kind), formMedia) || strings.ContainsFunc(body, notInQuery) {
		sum := sha256.Sum256([]byte(body))
		fields = "__wb_post_data=" + hex.EncodeToString(sum[:])
	}
	mark := "?"
	if strings.Contains(address, "?") {
		mark = "&"
	}
	return address + mark + "__wb_method=POST&" + fields
}

// notInQuery reports whether a character must be escaped in a URL's query.
func notInQuery(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"#<>`, c) }

// matches reports whether a page of the watch's host is watched.
func (w *Watch) matches(pageURL string) bool {
	switch w.Kind {
	case URL:
		return pageURL == w.URL
	case Prefix:
		return strings.HasPrefix(pageURL, w.URL)
	}
	return true
}

// Title returns the name of the watch in mails and feeds.
func (w *Watch) Title() string {
	switch w.Kind {
	case Host:
		return w.Host
	case Prefix:
		return w.URL + "…"
	}
	if w.Body != "" {
		return w.Address + " (" + w.Body[:min(len(w.Body), 60)] + ")"
	}
	return w.URL
}

// token returns a secret that allows its holder one thing, such as ending the mails.
func (w *Watch) token(purpose string) string {
	m := hmac.New(sha256.New, []byte(w.Secret))
	m.Write([]byte(purpose))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// secretMark begins a webhook's secret. Base64 follows.
const secretMark = "whsec_"

func newSecret() string {
	b := make([]byte, 24)
	rand.Read(b) // never fails
	return secretMark + base64.StdEncoding.EncodeToString(b)
}

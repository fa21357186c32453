package watch

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/mailer"
	"sheaf/internal/peer"
	"sheaf/internal/weburl"
)

const hookTime = 20 * time.Second // limit for one call

// hooks calls webhooks, and lets those that fail rest.
type hooks struct {
	table  *table
	client *http.Client
}

// hookClient returns the client of webhooks. Consumers choose the addresses that it calls. So it
// follows no redirects, reads little and, unless private is set, connects only to public addresses.
func hookClient(private bool) *http.Client {
	dialer := &net.Dialer{Timeout: hookTime}
	if !private {
		dialer.Control = publicOnly
	}
	return &http.Client{
		Timeout:       hookTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: hookTime, ResponseHeaderTimeout: hookTime, MaxResponseHeaderBytes: 64 << 10},
	}
}

// publicOnly refuses a connection to an address that is not public. It is called with the address
// of each connection, whatever a name led to before.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !peer.IsPublic(at.Addr()) {
		return &refusal{&hookFailure{notPublic, fmt.Errorf("%s is not a public address", address)}}
	}
	return nil
}

const notPublic = "its address is not public; the service calls no others"

// checkHook returns an error for a webhook at an address that the service does not call. It knows
// addresses in all spellings that resolvers accept, such as http://0x7f.1/.
func checkHook(webhook string) error {
	u, err := weburl.New(webhook, nil)
	if err != nil {
		return err
	}
	if !peer.IsPublicHost(u.Hostname()) {
		return errors.New(notPublic)
	}
	return nil
}

// hookFailure is the reason why a call failed. says is for consumers. err is for the operator's
// log: it may be about machines that the consumer cannot reach, or quote an answer.
type hookFailure struct {
	says string
	err  error
}

func (f *hookFailure) Error() string { return f.says + ": " + f.err.Error() }
func (f *hookFailure) Unwrap() error { return f.err }

// told returns what a consumer is told of a failure.
func told(err error) string {
	if f, ok := errors.AsType[*hookFailure](err); ok {
		return f.says
	}
	return err.Error()
}

// noAnswer returns the failure of a call that got no answer.
func noAnswer(err error) error {
	var (
		final *refusal
		dns   *net.DNSError
		cert  *tls.CertificateVerificationError
		slow  net.Error
	)
	switch {
	case errors.As(err, &final):
		return err
	case errors.As(err, &dns):
		return &hookFailure{"its name has no address", err}
	case errors.As(err, &cert):
		return &hookFailure{"its certificate does not verify", err}
	case errors.As(err, &slow) && slow.Timeout():
		return &hookFailure{fmt.Sprintf("no answer within %s", hookTime), err}
	}
	return &hookFailure{"no HTTP answer", err}
}

// sign returns the header webhook-signature: the HMAC-SHA256 of ID, time and body, joined by dots.
// See standardwebhooks.com.
func sign(secret, id string, at time.Time, body []byte) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretMark)) // as Add made it
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// call tells a webhook of a notice. A repeated call has the same webhook-id.
func (h *hooks) call(ctx context.Context, w *Watch, d delivery) error {
	n, err := h.table.notice(ctx, d.notice)
	if err != nil || n == nil || w.Webhook == "" {
		return err
	}
	body, err := json.Marshal(struct {
		Type string  `json:"type"`
		Data *Notice `json:"data"`
	}{"page." + string(n.What), n})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Webhook, bytes.NewReader(body))
	if err != nil {
		return &refusal{err}
	}
	now := h.table.now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sheaf-webhook")
	req.Header.Set("webhook-id", d.id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", sign(w.Secret, d.id, now, body))
	resp, err := h.client.Do(req)
	if err != nil {
		return noAnswer(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // for the operator's log
	says := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	failed := &hookFailure{strings.TrimSpace(says), fmt.Errorf("%.100q, %.300q", resp.Status, text)}
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		failed.says += ": it asks for no more calls"
		return &refusal{failed}
	}
	return failed
}

// A webhook that fails rests, twice as long after each failure, and then gets one call at a time.
// The rest belongs to the account's URL and not to a delivery, so a thousand changes that wait for
// a dead URL make no more calls than one. The first call that is answered ends the rest.

// hookPatience is how long a notice waits for a failing webhook before it is given up.
const hookPatience = 3 * 24 * time.Hour

// notResting is an SQL condition: delivery d does not wait for a webhook that rests at the time
// given by its first parameter. The second is mailer.BeyondPauses of that time.
const notResting = `NOT EXISTS (SELECT 1 FROM watches w JOIN watch_hooks h ON h.account = w.account AND h.webhook = w.webhook
	WHERE w.id = d.watch AND d.channel = 'webhook' AND h.resume > ? AND h.resume <= ?)`

// turn is the right to call a webhook now.
type turn struct {
	until  int64 // end of the rest that this call has made for others, in milliseconds; 0: the webhook has not failed
	failed int   // number of failures in a row
}

// take takes the turn to call a webhook. There is no turn while the webhook rests, or while another
// call tries whether the webhook answers again.
func (h *hooks) take(ctx context.Context, w *Watch) (t turn, ok bool, err error) {
	var resume int64
	err = h.table.db.QueryRowContext(ctx, `SELECT failures, resume FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook).Scan(&t.failed, &resume)
	if errors.Is(err, sql.ErrNoRows) {
		return turn{}, true, nil
	}
	now := h.table.now()
	if err != nil || resume > db.Millis(now) && resume <= db.Millis(mailer.BeyondPauses(now)) {
		return turn{}, false, err
	}
	t.until = db.Millis(now.Add(hookTime + claimFor))
	n, err := db.Exec(ctx, h.table.db, `UPDATE watch_hooks SET resume = ? WHERE account = ? AND webhook = ? AND resume = ?`, t.until, w.Account, w.Webhook, resume)
	return t, n == 1, err
}

// answered ends the rest of a webhook.
func (h *hooks) answered(ctx context.Context, w *Watch) error {
	_, err := h.table.db.ExecContext(ctx, `DELETE FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook)
	return err
}

// rest notes that a call failed, and returns the time from which on the next call may be made. Of
// several calls that were under way at once only the first counts. It gives up notices that have
// waited too long.
func (h *hooks) rest(ctx context.Context, w *Watch, t turn, why string) (time.Time, error) {
	now := h.table.now()
	next := now.Add(mailer.Pause(t.failed + 1))
	_, err := h.table.db.ExecContext(ctx, `INSERT INTO watch_hooks (account, webhook, failures, resume) VALUES (?, ?, ?, ?)
		ON CONFLICT (account, webhook) DO UPDATE SET failures = excluded.failures, resume = excluded.resume WHERE watch_hooks.resume = ?`,
		w.Account, w.Webhook, t.failed+1, db.Millis(next), t.until)
	if err != nil {
		return next, err
	}
	_, err = h.table.db.ExecContext(ctx, `
		UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE state = ? AND channel = ?
		AND watch IN (SELECT id FROM watches WHERE account = ? AND webhook = ?) AND notice IN (SELECT id FROM watch_notices WHERE account = ? AND found < ?)`,
		dead, db.Millis(now), why, waiting, byWebhook, w.Account, w.Webhook, w.Account, db.Millis(now.Add(-hookPatience)))
	return next, err
}

// callInTurn calls a webhook if it does not rest, and notes the result.
func (s *deliverer) callInTurn(ctx context.Context, d delivery) error {
	w := d.of
	t, ok, err := s.hooks.take(ctx, w)
	if err != nil || !ok {
		return err
	}
	if mine, err := s.claim(ctx, &d, hookTime); !mine {
		return err
	}
	var failed *hookFailure
	var final *refusal
	again := time.Time{}
	cause := s.hooks.call(ctx, w, d)
	noted := context.WithoutCancel(ctx)
	switch {
	case cause == nil || errors.As(cause, &final):
		err = s.hooks.answered(noted, w)
	case ctx.Err() == nil && errors.As(cause, &failed):
		again, err = s.hooks.rest(noted, w, t, failed.says)
	}
	s.settle(ctx, d, cause, again)
	return err
}

package watch

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const hookTime = 20 * time.Second // of one call, at most

// hooks calls webhooks. It goes where consumers say, so it goes to no address from which only this
// machine and its neighbours are reached, follows no redirects, and reads little.
type hooks struct{ client *http.Client }

func newHooks(private bool) *hooks {
	dialer := &net.Dialer{Timeout: hookTime}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !public(at.Addr().Unmap()) {
				return &refusal{fmt.Errorf("%s is not a public address; the service calls no others", address)}
			}
			return nil
		}
	}
	return &hooks{&http.Client{
		Timeout:       hookTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: hookTime, ResponseHeaderTimeout: hookTime, MaxResponseHeaderBytes: 64 << 10},
	}}
}

// shared is the range of carriers' translators (RFC 6598), which netip does not count as private.
var shared = netip.MustParsePrefix("100.64.0.0/10")

func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a)
}

// sign gives the header webhook-signature: HMAC-SHA256 of ID, time and body, joined by points, as
// standardwebhooks.com has it.
func sign(secret, id string, at time.Time, body []byte) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretMark)) // as Add made it
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// call tells a webhook of a notice. Receivers know a call that comes again by its webhook-id.
func (s *Watches) call(ctx context.Context, w *Watch, d delivery) error {
	n, err := s.notice(ctx, d.notice)
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
	now := s.opt.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sheaf-webhook")
	req.Header.Set("webhook-id", d.id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", sign(w.Secret, d.id, now, body))
	resp, err := s.hook.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // only to say what went wrong
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		return &refusal{fmt.Errorf("%s: it asks for no more calls", resp.Status)}
	}
	return fmt.Errorf("%s: %.300q", resp.Status, text)
}

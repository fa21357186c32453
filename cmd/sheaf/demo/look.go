package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"sheaf/ingest/ledger"
	"sheaf/internal/session"
	"sheaf/internal/wire"
	"sheaf/ui/board"
)

// checkPages logs in as the reader, looks at the front page and follows its links to the home pages
// of the sites. It logs in as the operator, looks at the board, and releases the batch that is in
// the quarantine.
func (d *day) checkPages(ctx context.Context, bad ledger.Batch) error {
	reader, err := logIn(ctx, d.service.Addresses().HTTP, d.account)
	if err != nil {
		return err
	}
	var homes []string
	for _, host := range d.web.Hosts() {
		homes = append(homes, "/web/http://"+host+"/")
	}
	if err := reader.see(ctx, "/", homes...); err != nil {
		return err
	}
	for _, home := range homes {
		if err := reader.see(ctx, home, "sheaf-archive-banner"); err != nil {
			return err
		}
	}
	operator, err := logIn(ctx, d.service.Addresses().HTTP, d.keeper)
	if err != nil {
		return err
	}
	const quarantine = board.Path + "batches?state=" + string(wire.StateQuarantined)
	for _, l := range []struct {
		path  string
		words []string
	}{
		{board.Path, append([]string{quarantine, notJoined, "for a decision"}, robots...)},
		{board.Path + "transfers?by=day", robots},
		{board.Path + "batches?state=" + string(wire.StatePublished), robots},
		{board.Path + "hosts", []string{"accu.org"}},
		{board.Path + "levelling", robots},
		{board.Path + "store", []string{"/pub/editions/"}},
		{quarantine, []string{bad.ID, string(wire.ReasonHostNotAssigned), strayHost, "Release", "Discard"}},
		{board.Path + "batches/" + bad.ID, []string{strayHost, "Release", "Discard"}},
	} {
		if err := operator.see(ctx, l.path, l.words...); err != nil {
			return err
		}
	}
	if err := operator.send(ctx, board.Path+"batches", url.Values{"batch": {bad.ID}, "act": {"release"}, "note": {"it is a copy of a host of ours"}}); err != nil {
		return err
	}
	return operator.see(ctx, board.Path+"batches/"+bad.ID, operatorName, "it is a copy of a host of ours")
}

// visitor is somebody with a browser who has logged in.
type visitor struct {
	at      string // URL of the service
	browser http.Client
}

// logIn fills in the log-in page.
func logIn(ctx context.Context, at string, as credentials) (*visitor, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &visitor{at: at, browser: http.Client{Jar: jar}}
	return v, v.send(ctx, session.PathLogin, url.Values{"name": {as.name}, "password": {as.password}})
}

// see looks at a page, which must have all of the words.
func (v *visitor) see(ctx context.Context, path string, words ...string) error {
	return v.ask(ctx, http.MethodGet, path, nil, words...)
}

// send sends a form.
func (v *visitor) send(ctx context.Context, path string, form url.Values) error {
	return v.ask(ctx, http.MethodPost, path, form)
}

func (v *visitor) ask(ctx context.Context, method, path string, form url.Values, words ...string) error {
	r, err := http.NewRequestWithContext(ctx, method, v.at+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := v.browser.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s answers %s", method, path, resp.Status)
	}
	for _, word := range words {
		if !bytes.Contains(page, []byte(word)) {
			return fmt.Errorf("%s does not show %q", path, word)
		}
	}
	return nil
}

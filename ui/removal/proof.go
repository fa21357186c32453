package removal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Limits of proofs.
const (
	codeLife     = 24 * time.Hour
	codeTries    = 10 // of one code
	codesEach    = 3  // mails with codes for one request
	codesPerSite = 10 // mails with codes for all requests of the last 24 hours about one registered domain
	looksEach    = 50 // looks at file or DNS for one request
	lookPause    = 5 * time.Second
)

// Errors of proofs.
var (
	errCode    = errors.New("the code is wrong, too old or used")
	errAddress = errors.New("not an address at the site")
	errCodes   = errors.New("no more codes are sent for this request")
	errLooks   = errors.New("it was looked for a moment ago, or too often")
	errNoMails = errors.New("this service sends no mails")
)

// sendCode sends a code to an address at the site. An earlier code is void.
func (d *Desk) sendCode(ctx context.Context, id, address string) error {
	if !d.opt.Mails.Sends() {
		return errNoMails
	}
	code := rand.Text()[:10]
	err := db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		r, err := d.open(ctx, tx, id)
		if err != nil {
			return err
		}
		t := r.target()
		if !slices.Contains(t.addresses(), address) {
			return errAddress
		}
		var today int
		err = tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(codes), 0) FROM removals WHERE site = ? AND created > ?`, t.site(), db.Millis(d.now().Add(-day))).Scan(&today)
		if err != nil {
			return err
		}
		if r.codes >= codesEach || today >= codesPerSite {
			return errCodes
		}
		sum := sha256.Sum256([]byte(code))
		_, err = tx.ExecContext(ctx, `UPDATE removals SET code_hash = ?, code_to = ?, code_until = ?, code_tries = 0, codes = codes + 1 WHERE id = ?`,
			sum[:], address, db.Millis(d.now().Add(codeLife)), id)
		if err != nil {
			return err
		}
		if err := d.note(ctx, tx, id, byAsker, "code sent", address); err != nil {
			return err
		}
		return d.opt.Mails.Add(ctx, tx, d.codeLetter(r, address, code[:5]+"-"+code[5:]))
	})
	if err != nil {
		return fmt.Errorf("code for request %s: %w", id, err)
	}
	d.opt.Mails.Hurry()
	return nil
}

// enterCode proves a request by the code of the last mail. Each code works once, and may be tried
// codeTries times.
func (d *Desk) enterCode(ctx context.Context, id, code string) error {
	code = strings.NewReplacer("-", "", " ", "").Replace(strings.ToUpper(strings.TrimSpace(code)))
	var right bool
	err := db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		r, err := d.open(ctx, tx, id)
		if err != nil {
			return err
		}
		var want []byte
		var tries int
		if err := tx.QueryRowContext(ctx, `SELECT code_hash, code_tries FROM removals WHERE id = ?`, id).Scan(&want, &tries); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(code))
		right = subtle.ConstantTimeCompare(sum[:], want) == 1 && tries < codeTries && d.now().Before(r.codeUntil)
		if !right { // commits, so that tries are counted
			_, err := tx.ExecContext(ctx, `UPDATE removals SET code_tries = code_tries + 1 WHERE id = ?`, id)
			return err
		}
		return d.prove(ctx, tx, r, "mail to "+r.codeTo)
	})
	if err == nil && !right {
		err = errCode
	}
	return err
}

// look proves a request by a file or a DNS record of the site.
func (d *Desk) look(ctx context.Context, id string, find func(context.Context, target, string) (string, error)) error {
	r, err := d.open(ctx, d.opt.DB, id)
	if err != nil {
		return err
	}
	now := d.now()
	err = db.Change(ctx, d.opt.DB, errLooks, `UPDATE removals SET checks = checks + 1, checked = ? WHERE id = ? AND checks < ? AND checked <= ?`,
		db.Millis(now), id, looksEach, db.Millis(now.Add(-lookPause)))
	if err != nil {
		return err
	}
	select {
	case d.looks <- struct{}{}:
		defer func() { <-d.looks }()
	default:
		return errLooks
	}
	where, err := find(ctx, r.target(), r.token())
	if err != nil {
		d.opt.Log.InfoContext(ctx, "a removal is not proved", "removal", id, "target", r.Target, "err", err)
		return err
	}
	return db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		if r, err = d.open(ctx, tx, id); err != nil {
			return err
		}
		return d.prove(ctx, tx, r, where)
	})
}

func (d *Desk) lookForFile(ctx context.Context, id string) error {
	return d.look(ctx, id, func(ctx context.Context, t target, token string) (string, error) {
		return d.opt.Network.file(ctx, t, token, d.opt.Site.Contact)
	})
}

func (d *Desk) lookForRecord(ctx context.Context, id string) error {
	return d.look(ctx, id, func(ctx context.Context, t target, token string) (string, error) {
		name, err := d.opt.Network.record(ctx, t, token)
		return "DNS " + name, err
	})
}

// prove records that a request is proved. Its earlier proofs stay in its history.
func (d *Desk) prove(ctx context.Context, tx *sql.Tx, r *Request, how string) error {
	_, err := tx.ExecContext(ctx, `UPDATE removals SET state = ?, proof = ?, code_hash = NULL, code_to = '', code_until = 0 WHERE id = ?`, Proved, how, r.ID)
	if err != nil {
		return err
	}
	d.opt.Log.InfoContext(ctx, "a removal is proved", "removal", r.ID, "target", r.Target, "proof", how)
	return d.note(ctx, tx, r.ID, byAsker, "proved", how)
}

// Network is the access to files and DNS records of sites.
type Network struct {
	Resolver Resolver                                                             // nil: the system's
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: the system's; it gets public addresses only
}

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

const (
	lookTime    = 15 * time.Second // time limit for one look at a site
	looksAtOnce = 4
	maxFile     = 4 << 10 // bytes of a file that are read
	maxHops     = 3       // redirects that are followed, all within the host

	wellKnown  = "/.well-known/sheaf-removal.txt"
	recordName = "_sheaf-removal."
)

// Why a look found no proof.
var (
	errNoRecord = errors.New("no TXT record has the token")
	errNoToken  = errors.New("the file does not have the token")
	errPrivate  = errors.New("its address is not public")
	errNoAnswer = errors.New("the site does not answer")
	errLeaves   = errors.New("it redirects to another host")
)

func (n Network) resolver() Resolver { return cmp.Or[Resolver](n.Resolver, net.DefaultResolver) }

// record looks for the token in the site's DNS. It returns the record's name.
func (n Network) record(ctx context.Context, t target, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	name := recordName + t.name()
	texts, err := n.resolver().LookupTXT(ctx, name+".")
	if err != nil {
		return "", errors.Join(errNoRecord, err)
	}
	for _, text := range texts {
		if strings.TrimSpace(text) == token {
			return name, nil
		}
	}
	return "", errNoRecord
}

// file looks for the token in a file on the site. It returns the file's URL. If http does not
// answer, it uses https, with a certificate that must verify.
func (n Network) file(ctx context.Context, t target, token, contact string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	client := &http.Client{
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Hostname() != t.name() || r.URL.Port() != "" && r.URL.Port() != via[0].URL.Port() || len(via) > maxHops {
				return errLeaves
			}
			return nil
		},
		Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: lookTime, MaxResponseHeaderBytes: 64 << 10},
	}
	var err error
	for _, scheme := range []string{"http", "https"} {
		where := scheme + "://" + t.host + wellKnown
		if err = fetch(ctx, client, where, token, contact); err == nil {
			return where, nil
		}
		if !errors.Is(err, errNoAnswer) {
			break
		}
	}
	return "", err
}

func fetch(ctx context.Context, client *http.Client, where, token, contact string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return errors.Join(errNoAnswer, err)
	}
	agent := "sheaf-removal"
	if contact != "" {
		agent += " (+" + contact + ")"
	}
	r.Header.Set("User-Agent", agent)
	resp, err := client.Do(r)
	switch {
	case errors.Is(err, errPrivate), errors.Is(err, errLeaves):
		return err
	case err != nil:
		return errors.Join(errNoAnswer, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errNoToken
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return errors.Join(errNoAnswer, err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == token {
			return nil
		}
	}
	return errNoToken
}

// dial connects to a host at one of its public addresses.
func (n Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{ip}
	} else if addrs, err = n.resolver().LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	dial := n.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	err = errPrivate
	for _, ip := range addrs[:min(len(addrs), 4)] {
		if !peer.IsPublic(ip) {
			continue
		}
		conn, failed := dial(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if failed == nil {
			return conn, nil
		}
		err = fmt.Errorf("%s: %w", ip, failed)
	}
	return nil, err
}

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/api"
	"sheaf/serve/account"
)

const (
	logInsASecond = 20
	shareBound    = 0.1 // by which an account's share may differ from the mean
)

// reader is an account of the consumers.
type reader struct {
	name, password string
	got            atomic.Int64 // bytes, while all are at work
}

// consume plays the consumers, and writes which shares the accounts got in the time in which all
// were at work.
func (p *play) consume(ctx context.Context, out io.Writer) error {
	readers, err := p.makeAccounts(ctx)
	defer p.removeAccounts(context.WithoutCancel(ctx), readers)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var count atomic.Bool
	var consumers sync.WaitGroup
	tick := time.NewTicker(time.Second / logInsASecond)
	defer tick.Stop()
	for n := range p.consumers {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C: // each begins by logging in
		}
		r := readers[ofAccount(n, len(readers))]
		consumers.Go(func() { p.download(ctx, r, &count) })
	}
	count.Store(true)
	began := time.Now()
	for time.Since(began) < p.last && ctx.Err() == nil {
		<-tick.C
		consumers.Go(func() { p.logIn(ctx, readers[mathrand.IntN(len(readers))]) })
	}
	count.Store(false)
	took := time.Since(began)
	stop()
	consumers.Wait()
	return shares(out, readers, took)
}

// ofAccount returns the account of consumer n. Half of the consumers belong to a quarter of the
// accounts, which so have three times as many consumers as the others.
func ofAccount(n, accounts int) int {
	few := (accounts + 3) / 4
	if n%2 == 0 || few == accounts {
		return n / 2 % few
	}
	return few + n/2%(accounts-few)
}

// shares writes what the accounts got, and fails if an account's share differs from the mean by
// more than shareBound.
func shares(out io.Writer, readers []*reader, took time.Duration) error {
	least, most, all := readers[0].got.Load(), readers[0].got.Load(), int64(0)
	for _, r := range readers {
		got := r.got.Load()
		least, most, all = min(least, got), max(most, got), all+got
	}
	mean := float64(all) / float64(len(readers))
	if mean == 0 {
		return fmt.Errorf("the consumers got nothing in %v", took)
	}
	low, high := float64(least)/mean, float64(most)/mean
	fmt.Fprintf(out, "%d accounts got %.1f MB/s, each between %.1f %% and %.1f %% of an equal share\n",
		len(readers), float64(all)/took.Seconds()/1e6, 100*low, 100*high)
	if low < 1-shareBound || high > 1+shareBound {
		return fmt.Errorf("the shares differ by more than %.0f %%; has the service access.rate?", 100*shareBound)
	}
	return nil
}

// makeAccounts makes the accounts. With an error it returns the accounts made before.
func (p *play) makeAccounts(ctx context.Context) (readers []*reader, err error) {
	prefix := strings.ToLower(rand.Text()[:6])
	for n := range p.accounts {
		made := account.NewAccount{Account: account.Account{Name: fmt.Sprintf("played-%s-%d", prefix, n), Domains: []string{"*"}}}
		err := p.timed("account", "operator", func() error { return p.operator.Do(ctx, http.MethodPost, api.PathAdminAccounts, made, &made) })
		if err != nil {
			return readers, err
		}
		readers = append(readers, &reader{name: made.Name, password: made.Password})
	}
	return readers, nil
}

func (p *play) removeAccounts(ctx context.Context, readers []*reader) {
	for _, r := range readers {
		p.timed("remove account", "operator", func() error {
			return p.operator.Do(ctx, http.MethodDelete, api.PathAdminAccounts+"/"+r.name, nil, nil)
		})
	}
}

// download downloads the file again and again until ctx ends or a download fails.
func (p *play) download(ctx context.Context, r *reader, count *atomic.Bool) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		began := time.Now()
		err := p.get(ctx, client, r, "", count)
		if ctx.Err() != nil {
			return // it was cut off
		}
		p.figures.note("download", time.Since(began), err)
		if err != nil {
			return
		}
	}
}

// logIn fetches one byte over a new connection.
func (p *play) logIn(ctx context.Context, r *reader) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	if err := p.get(ctx, client, r, "bytes=0-0", new(atomic.Bool)); ctx.Err() == nil {
		p.figures.note("log-in", time.Since(began), err)
	}
}

// get reads the file, or a range of it, and counts the bytes as the account's while count says so.
func (p *play) get(ctx context.Context, client *http.Client, r *reader, bytes string, count *atomic.Bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.service, "/")+p.file, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(r.name, r.password)
	if bytes != "" {
		req.Header.Set("Range", bytes)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("account %s: %w", r.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return fmt.Errorf("account %s: %s", r.name, resp.Status)
	}
	_, err = io.Copy(counter{r, count}, resp.Body)
	return err
}

type counter struct {
	*reader
	count *atomic.Bool
}

func (c counter) Write(b []byte) (int, error) {
	if c.count.Load() {
		c.got.Add(int64(len(b)))
	}
	return len(b), nil
}

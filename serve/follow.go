package serve

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often accounts that are in use are read again, to learn what
// other processes have changed.
const lookEvery = 10 * time.Second

// following is the accounts that sessions and open files are of.
type following struct {
	mu       sync.Mutex // guards what follows, and Following.account and .gone
	accounts map[string][]*Following
}

// Following is an account in use, as it is now and not as it was at the login.
// Its methods may be called from many goroutines at once.
type Following struct {
	of      *following // nil: the account never changes
	account *Account
	gone    bool
	end     func()
}

// Follow keeps up with an account until Close.
func (a *Accounts) Follow(account *Account) *Following {
	f := &Following{account: account}
	if account.Name == Anonymous {
		return f
	}
	f.of = &a.following
	a.following.mu.Lock()
	defer a.following.mu.Unlock()
	if a.following.accounts == nil {
		a.following.accounts = make(map[string][]*Following)
	}
	a.following.accounts[account.Name] = append(a.following.accounts[account.Name], f)
	return f
}

// Notify has end called, once, when the account is taken away, or now where it
// has been already. It must not block.
func (f *Following) Notify(end func()) {
	if f.of == nil {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.end = end; f.gone {
		end()
	}
}

// Account is the account as it is now; ErrNoAccount says that it was taken away.
func (f *Following) Account() (*Account, error) {
	if f.of == nil {
		return f.account, nil
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.gone {
		return nil, ErrNoAccount
	}
	return f.account, nil
}

// Close ends the following; it may be called again.
func (f *Following) Close() {
	if f.of == nil {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	name := f.account.Name
	rest := slices.DeleteFunc(f.of.accounts[name], func(other *Following) bool { return other == f })
	if len(rest) == 0 {
		delete(f.of.accounts, name)
	} else {
		f.of.accounts[name] = rest
	}
}

// learn tells those who follow an account what it is like now. One of the same
// name that was made later is another.
func (g *following) learn(now *Account) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range slices.Clone(g.accounts[now.Name]) {
		switch {
		case !f.account.Created.Equal(now.Created):
			f.leave()
		case !f.account.same(now):
			f.account = now
		}
	}
}

// gone tells those who follow an account that there is none any more.
func (g *following) gone(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.accounts[name] {
		f.leave()
	}
}

// leave says, once, that the account has gone. following.mu is held.
func (f *Following) leave() {
	if !f.gone && f.end != nil {
		f.end()
	}
	f.gone = true
}

// names are those of the accounts that are followed.
func (g *following) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name := range g.accounts {
		names = append(names, name)
	}
	return names
}

// same reports whether two states of an account are the same.
func (a *Account) same(b *Account) bool {
	return slices.Equal(a.Domains, b.Domains) && a.Window.String() == b.Window.String() &&
		storedRate(a.Rate) == storedRate(b.Rate) && a.Quota == b.Quota
}

// Watch reads accounts in use again, every few seconds until ctx ends. While the
// database cannot be read they stay what they were.
func (a *Accounts) Watch(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			log.Warn("accounts in use could not be read again and stay what they were", "err", err)
		}
	}
}

func (a *Accounts) look(ctx context.Context) error {
	for _, name := range a.following.names() {
		now, _, err := a.load(ctx, name)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			a.following.gone(name)
		case err != nil:
			return err
		default:
			a.following.learn(now)
		}
	}
	return nil
}

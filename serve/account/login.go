package account

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/guesses"
	"sheaf/internal/peer"
)

// Mirrors log in with several connections, so credentials that were right are accepted for
// credentialTTL without another argon2id computation. Deleting an account or changing its password
// takes effect at once all the same, since the cache's key includes the stored hash.
const (
	credentialTTL   = 5 * time.Minute
	credentialCache = 4096 // entries
)

// Authenticate returns the account with these credentials. It fails with ErrCredentials, which does
// not tell whether the name or the password is wrong. It does not bound guessing; Login does.
func (a *Accounts) Authenticate(ctx context.Context, name, password string) (*Account, error) {
	return a.login(ctx, name, password, "")
}

// Login is Authenticate for a client at an address ("192.0.2.1:7"). It fails with *guesses.TooMany
// if too many passwords from there were wrong. If the same credentials arrive several times at once
// from one address, they are checked once.
func (a *Accounts) Login(ctx context.Context, name, password, remote string) (*Account, error) {
	return a.login(ctx, name, password, cmp.Or(remote, "unknown"))
}

func (a *Accounts) login(ctx context.Context, name, password, remote string) (*Account, error) {
	if a.anonymous != nil && name == Anonymous {
		return a.anonymous, nil
	}
	account, phc, err := a.known(ctx, name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		account, phc = nil, a.decoy
	case err != nil:
		return nil, err
	}
	id := guesses.Digest(a.key[:], name, phc, password)
	if until, ok := a.verified.Get(id); ok && time.Now().Before(until) && account != nil {
		return account, nil
	}
	verify := func(ctx context.Context) (bool, error) {
		done, err := a.turns.Wait(ctx, remote)
		if err != nil {
			return false, err
		}
		defer done()
		ok, err := checkPassword(phc, password)
		if ok = ok && account != nil; ok {
			a.verified.Add(id, time.Now().Add(credentialTTL))
		}
		return ok, err
	}
	ok, err := a.checks.Do(ctx, string(id[:])+peer.Network(peer.Addr(remote)).String(), func(ctx context.Context) (bool, error) {
		if remote == "" {
			return verify(ctx)
		}
		return a.Guesses.Check(ctx, guesses.Try{Realm: guesses.Account, Name: name, Secret: password, Remote: remote}, verify)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("account %s: %w", name, err)
	case !ok:
		return nil, ErrCredentials
	}
	return account, nil
}

package robotd

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sheaf/internal/botauth"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
)

// openSigner returns what signs requests, by the manager's clock: verifiers refuse signatures from
// the future and from long ago. It returns nil if requests are not signed.
func (r *Robot) openSigner() (sign func(h http.Header, scheme, host string), err error) {
	if r.cfg.Identity.Sign == "" {
		return nil, nil
	}
	if r.signer, err = botauth.New(r.cfg.Identity.Sign, r.id.Key); err != nil {
		return nil, fmt.Errorf("setting identity.sign: %w", err)
	}
	return func(h http.Header, scheme, host string) { r.signer.Sign(h, scheme, host, r.managersTime()) }, nil
}

// tellClock logs once if the machine's clock is wrong, since signatures bear times.
func (r *Robot) tellClock() {
	if off := r.client.Clock().Wrong(); off != 0 {
		r.wrong.Do(func() {
			r.log.Warn("this machine's clock differs from the manager's, by which requests are signed: set it; while the manager cannot be asked after a start, sites refuse the signatures", "ahead", off)
		})
	}
}

// managersTime returns the time by the manager's clock, as far as it is known.
func (r *Robot) managersTime() time.Time { return time.Now().Add(-r.client.Offset()) }

// signing returns the keys that the manager is to list; nil: requests are not signed.
func (r *Robot) signing() []wire.SigningKey {
	if r.signer == nil {
		return nil
	}
	r.tellClock()
	return r.signer.Proofs(r.managersTime())
}

// signing checks what sites need to verify the robot's signatures: a directory at the service's
// public address that has the robot's key, and a time that is about theirs.
func (c *checkup) signing(ctx context.Context, agent string, secret ed25519.PrivateKey, manager *client.Client) {
	const what = "signatures"
	signer, err := botauth.New(agent, secret)
	if err != nil {
		c.report(what, settings.Wrong("identity.sign", agent, err.Error()), "")
		return
	}
	if off := manager.Offset(); off.Abs() > botauth.Life {
		c.report(what, fmt.Errorf("this machine's clock is off by %v, and a signature is good for %v: set the clock (NTP). The robot signs by the manager's clock, but by this one where the manager does not answer after a start",
			off.Round(time.Second), botauth.Life), "")
	}
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = signer.Listed(asking, http.DefaultClient, time.Now().Add(-manager.Offset()))
	switch {
	case errors.Is(err, botauth.ErrNotListed):
		err = fmt.Errorf("%w: it comes there with a heartbeat of the running robot (setting heartbeat), and caches may keep the list for half an hour; if it stays away, identity.sign is not the address that the service has as http.public", err)
	case err != nil:
		err = fmt.Errorf("%w: sites cannot verify the robot's signatures; set identity.sign to the service's public address, or leave it empty, and tell the operators if the address is right", err)
	}
	c.report(what, err, "the directory at %s has this robot's key", agent)
}

package robotd

import (
	"fmt"
	"net/http"
	"time"

	"sheaf/internal/botauth"
	"sheaf/internal/wire"
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

// managersTime returns the time by the manager's clock, as far as it is known.
func (r *Robot) managersTime() time.Time { return time.Now().Add(-r.client.Offset()) }

// signing returns the keys that the manager is to list; nil: none.
func (r *Robot) signing() []wire.SigningKey {
	if r.signer == nil {
		return nil
	}
	return r.signer.Proofs(r.managersTime())
}

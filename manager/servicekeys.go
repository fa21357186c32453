package manager

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"net/http"

	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
)

// serviceKeys returns the statements that lead from a service key that the robot knows to the
// newest one.
func (m *Manager) serviceKeys(ctx context.Context, q keyQuery) (chain wire.KeyChain, err error) {
	key, err := hex.DecodeString(q.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return chain, problem.New(http.StatusBadRequest, "bad_key", "key is the newest of the service's keys that the robot knows: 64 hexadecimal digits")
	}
	statements, err := m.Roster.ServiceKeys(ctx, robotOf(ctx), key)
	route.Header(ctx).Set("Cache-Control", "no-store")
	return wire.KeyChain{Statements: append([]wire.KeyStatement{}, statements...)}, adminError(err)
}

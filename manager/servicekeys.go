package manager

import (
	"crypto/ed25519"
	"encoding/hex"
	"net/http"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// serveServiceKeys tells a robot how to get from the service's key that it knows to the newest one.
func (m *Manager) serveServiceKeys(w http.ResponseWriter, r *http.Request, robot string) error {
	key, err := hex.DecodeString(r.URL.Query().Get("key"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return problem.New(http.StatusBadRequest, "bad_key", "key is the newest of the service's keys that the robot knows: 64 hexadecimal digits")
	}
	statements, err := m.Roster.ServiceKeys(r.Context(), robot, key)
	if statements == nil {
		statements = []wire.KeyStatement{}
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, wire.KeyChain{Statements: statements}, err)
}

package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/servicekey"
	"sheaf/manager"
)

// KeyList is the answer of api.PathAdminKeys and the paths below it.
type KeyList struct {
	Keys   []Key            `json:"keys"`
	Robots []api.KeyTrouble `json:"robots"` // robots that do not know the service's newest key
}

// Key describes a key or secret of the service to operators. It does not contain the secret.
type Key struct {
	Name  string    `json:"name"`            // service 1, service 2, …; operator token, release, database seal or quorum
	For   string    `json:"for"`             // purpose
	ID    string    `json:"id,omitempty"`    // of a public key: the key, or its beginning; of a secret: empty
	Made  time.Time `json:"made,omitzero"`   // zero: not known
	Used  time.Time `json:"used,omitzero"`   // when the service first signed with it; zero: not yet, or not known
	State string    `json:"state"`           // signs, next, former, set or none
	Where string    `json:"where,omitempty"` // place of the secret half
}

// KeyRotation is the body of a POST to api.PathAdminKeys + "/rotate".
type KeyRotation struct {
	// Compromised says that the signing key was stolen. The new key signs at once, and no robot can
	// follow.
	Compromised bool `json:"compromised,omitempty" doc:"the key was stolen: the new one signs at once, and no robot can follow"`
}

// KeyUse is the body of a POST to api.PathAdminKeys + "/use".
type KeyUse struct {
	// Leave says that the key comes into use even if some robots do not know it yet.
	Leave bool `json:"leave,omitempty" doc:"do not wait for robots that do not know the key; they keep their batches until they do"`
}

// keysAPI lets operators see and rotate keys.
type keysAPI struct {
	cfg    *Config
	state  *state
	robots *manager.Manager
	log    *slog.Logger
}

// Operations on keys.
var (
	ListKeys  = route.New[route.None, KeyList]("GET", api.PathAdminKeys, operators.Viewer, audit.None, "The service's keys, and the robots that do not know the newest one")
	RotateKey = route.New[KeyRotation, KeyList]("POST", api.PathAdminKeys+"/rotate", operators.Admin, audit.Change, "Make the next key of the service; without use, it does not sign yet, unless the former one was stolen").Answering(http.StatusOK, "As the keys are now")
	UseKey    = route.New[KeyUse, KeyList]("POST", api.PathAdminKeys+"/use", operators.Admin, audit.Change, "Let the next key sign").Answering(http.StatusOK, "As the keys are now")
)

func (a *keysAPI) register(mount route.Mount) {
	ListKeys.On(mount, a.list)
	RotateKey.On(mount, a.rotate)
	UseKey.On(mount, a.use)
}

// routes returns the operations that this package defines, for the API description.
func routes() []*route.Route {
	return append(route.List(new(keysAPI).register), SaveState.Route, live.Route, ready.Route, healthy.Route)
}

func (a *keysAPI) rotate(ctx context.Context, in KeyRotation) (KeyList, error) {
	audit.About(ctx, "key", "of the service")
	rotate, what := a.state.keys.Announce, "the service has a next key; robots learn it"
	if in.Compromised {
		rotate, what = a.state.keys.Replace, "the service has a new key, and signs with it: no robot can follow, since the former one was stolen"
	}
	if err := rotate(ctx); err != nil {
		return KeyList{}, problem.New(http.StatusConflict, "not_rotated", err.Error())
	}
	a.log.WarnContext(ctx, what)
	return a.list(ctx, route.None{})
}

func (a *keysAPI) use(ctx context.Context, in KeyUse) (KeyList, error) {
	audit.About(ctx, "key", "of the service")
	behind, err := a.robots.Roster.KeyTroubles(ctx)
	if err != nil {
		return KeyList{}, err
	}
	if len(behind) > 0 && !in.Leave {
		return KeyList{}, problem.New(http.StatusConflict, "robots_behind", fmt.Sprintf(
			"%d robots do not know the next key, such as %s, which %s; sheaf key ls shows them, and sheaf key use --leave does not wait for them", len(behind), behind[0].Robot, behind[0].Why))
	}
	if err := a.state.keys.Use(ctx); err != nil {
		return KeyList{}, problem.New(http.StatusConflict, "not_used", err.Error())
	}
	a.log.WarnContext(ctx, "the service signs with its next key")
	for _, robot := range behind {
		a.log.WarnContext(ctx, "a robot does not know the key with which the service signs now", "robot", robot.Robot, "reason", robot.Why)
	}
	return a.list(ctx, route.None{})
}

// list returns all keys, and the robots that do not know the newest key of the service.
func (a *keysAPI) list(ctx context.Context, _ route.None) (list KeyList, err error) {
	route.Header(ctx).Set("Cache-Control", "no-store")
	keys, err := servicekey.List(ctx, a.state.db)
	if err != nil {
		return list, err
	}
	if list.Robots, err = a.robots.Roster.KeyTroubles(ctx); err != nil {
		return list, err
	}
	in := a.cfg.Data
	if a.cfg.Database.Seal != "" {
		in += " and table sealed_keys"
	}
	signs := slices.IndexFunc(keys, func(k servicekey.Key) bool { return k.Signs })
	for i, k := range keys {
		key := Key{Name: fmt.Sprintf("service %d", k.Number), For: "receipts, hand-overs, robots' pages", ID: fmt.Sprintf("%x", k.Public), Made: k.Made, Used: k.Used}
		switch {
		case i == signs:
			key.State, key.Where = "signs", in
		case i > signs:
			key.State, key.Where = "next", in
		default:
			key.State, key.Where = "former", "destroyed"
		}
		list.Keys = append(list.Keys, key)
	}
	release, err := a.robots.Releases.Key(ctx)
	if err != nil {
		return list, err
	}
	token := Key{Name: "operator token", For: "operators' commands", State: "set", Where: in}
	if info, err := os.Stat(filepath.Join(a.cfg.Data, tokenFile)); err == nil {
		token.Made = info.ModTime().UTC().Truncate(time.Second)
	}
	list.Keys = append(list.Keys, token,
		Key{Name: "release", For: "the robots' program", ID: strings.TrimSpace(release), State: setOrNone(release), Where: "with the operators"},
		Key{Name: "database seal", For: "the keys in table sealed_keys", State: setOrNone(a.cfg.Database.Seal), Where: "setting database.seal"},
		Key{Name: "quorum", For: "messages of those who grant leases", State: setOrNone(a.cfg.Lease.Quorum.Secret), Where: "setting lease.quorum.secret"})
	return list, nil
}

func setOrNone(secret string) string {
	if secret == "" {
		return "none"
	}
	return "set"
}

// checkSigning checks whether this process has the key with which the service signs. It does not
// fail if the database is away: another check reports that.
func (s *state) checkSigning(ctx context.Context) error {
	if _, _, err := servicekey.Known(ctx, s.db); err != nil {
		return nil
	}
	_, err := s.keys.Signing(ctx)
	if err != nil {
		return errors.Join(err, advice("this process cannot get the service's key, and signs nothing: give it the database.seal of the others, or copy the key"))
	}
	return nil
}

package manager

import (
	"net/http"
	"net/url"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/botauth"
	"sheaf/internal/route"
)

// What sites ask to recognise robots. See package botauth.
var (
	directory = route.New[route.None, route.None](http.MethodGet, botauth.PathDirectory, route.Anybody, audit.None, "The keys by which robots sign their requests").Under("robots").
			Answering(http.StatusOK, "A JWK set").Sends("application/http-message-signatures-directory+json")
	card = route.New[route.None, route.None](http.MethodGet, botauth.PathCard, route.Anybody, audit.None, "Who the robots are").Under("robots").
		Answering(http.StatusOK, "A signature agent card").Sends("application/json")
)

// authority returns the authority of the signing keys' directory: Options.Public's or, if that is
// not set, the request's.
func (m *Manager) authority(r *http.Request) string {
	if u, err := url.Parse(m.opt.Public); err == nil && u.Host != "" {
		return botauth.Authority(u.Scheme, u.Host)
	}
	return botauth.Authority("http", r.Host)
}

func (m *Manager) serveDirectory(w http.ResponseWriter, r *http.Request) error {
	keys, err := m.Roster.SigningKeys(r.Context(), m.authority(r), time.Now())
	if err != nil {
		return err
	}
	return botauth.WriteDirectory(w, keys)
}

func (m *Manager) serveCard(w http.ResponseWriter, r *http.Request) error {
	c := botauth.Card{Name: m.opt.Name, URI: m.opt.Public + api.PathRobots, Keys: m.opt.Public + botauth.PathDirectory}
	if m.opt.Contact != "" {
		c.Contacts = []string{m.opt.Contact}
	}
	c.Bot.Purpose = "archive"
	return c.Write(w)
}

package service

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"

	"sheaf/archive/store"
	"sheaf/deploy"
	"sheaf/ingest"
	"sheaf/internal/audit"
	"sheaf/internal/commandline"
	"sheaf/internal/db"
	"sheaf/internal/operators"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/settings"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/ui/login"
)

// Config is the service's settings. deploy/sheaf.yaml explains each of them.
type Config struct {
	Data  string   `mapstructure:"data"`  // directory; one process at a time may use it, or several that share a PostgreSQL database
	Roles []string `mapstructure:"roles"` // of this process: roleManager, roleIngest, roleServe
	Zone  string   `mapstructure:"zone"`  // time zone of editions, and of windows without a zone

	Database struct {
		URL   string        `mapstructure:"url" secret:"yes"`        // of PostgreSQL; empty: a SQLite file in Data
		Seal  string        `mapstructure:"seal" secret:"yes"`       // key that seals the service's keys in the database; empty: the keys lie only in Data
		Wait  time.Duration `mapstructure:"wait" want:"at least 0s"` // longest wait for PostgreSQL at the start
		Fresh bool          `mapstructure:"fresh"`                   // allow an empty database beside a store that has archives
	} `mapstructure:"database"`
	Store Store `mapstructure:"store"`
	Lease Lease `mapstructure:"lease"`

	TLS      TLS      `mapstructure:"tls"`
	HTTP     HTTP     `mapstructure:"http"`
	Observe  Observe  `mapstructure:",squash"`
	Download Download `mapstructure:"download"`
	Drop     Drop     `mapstructure:"drop"`

	Ingest  ingest.Settings  `mapstructure:",squash"`
	Manager manager.Settings `mapstructure:",squash"`
	Serve   serve.Settings   `mapstructure:",squash"`

	Login Login `mapstructure:"login"`

	Audit     audit.Keeping     `mapstructure:"audit"`
	Transfers transfers.Keeping `mapstructure:"transfers"`

	Poll time.Duration `mapstructure:"poll" want:"above 0s"`    // between two looks for work
	Stop time.Duration `mapstructure:"stop" want:"at least 0s"` // how long downloads under way may go on after a stop

	// Slower multiplies the time limits of health's checks, and of database queries that log users
	// in. 0 means 1. Only tests set it, because their machine may be slow.
	Slower int `mapstructure:"-"`
}

// Observe is the settings by which operators observe a process.
type Observe struct {
	Metrics string          `mapstructure:"metrics" want:"host:port, or nothing"` // host:port of metrics and profiles; empty: none
	Log     commandline.Log `mapstructure:"log"`
}

// uploadStop is how long robots' commands by FTP may go on after a stop. Uploads go on later from
// where they were.
const uploadStop = 100 * time.Millisecond

// defaults returns the settings for keys that are not set.
func defaults() Config {
	var c Config
	settings.Defaults(&c, deploy.Sheaf)
	return c
}

// Load reads the settings from a YAML file, unless file is empty, from the environment
// (SHEAF_HTTP_LISTEN for http.listen) and from overrides by key. Each source takes precedence over
// the source before. The error names every setting that cannot be used.
func Load(file string, overrides map[string]any) (Config, error) {
	c := defaults()
	if _, given := overrides["data"]; file != "" && !given {
		if err := checkSameData(file); err != nil {
			return c, err
		}
	}
	err := settings.Load(&c, settings.Source{File: file, Prefix: "SHEAF", Overrides: overrides})
	return c, errors.Join(err, c.check())
}

// checkSameData returns an error if the environment names another data directory than the file. The
// operators' commands read SHEAF_DATA too, so a left-over variable would start another service than
// the file's.
func checkSameData(file string) error {
	v := viper.New()
	v.SetConfigFile(file)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return fmt.Errorf("settings: %s: %w", file, err)
	}
	const name = "SHEAF_DATA"
	if of, env := v.GetString("data"), os.Getenv(name); of != "" && env != "" && filepath.Clean(of) != filepath.Clean(env) {
		return fmt.Errorf("settings: data: %q in %s, and %q in the environment (%s); unset that, or choose with --data", of, file, env, name)
	}
	return nil
}

// check returns an error that names all settings that cannot be used, or nil.
func (c *Config) check() error {
	var is settings.Checks
	is.Fields(c)
	is.Require(c.Data != "", "data", c.Data, "want a directory")
	is.Require(c.Database.URL == "" || db.IsPostgres(c.Database.URL), "database.url", "…", "must begin with postgres://") // the error does not show the value, which may contain a password
	if c.Database.Seal != "" {
		_, err := newSeal(c.Database.Seal)
		is.Require(err == nil, "database.seal", "…", fmt.Sprint(err))
	}
	_, err := time.LoadLocation(c.Zone)
	is.Require(err == nil && c.Zone != "", "zone", c.Zone, "not a time zone; want one such as Asia/Tokyo")
	c.checkRoles(&is)
	c.Store.check(&is)
	c.Ingest.Check(&is, c.Zone)
	c.Lease.check(&is)
	c.TLS.check(&is)
	c.HTTP.check(&is)
	is.Require(c.HTTP.Redirect.At == 0 || c.Store.Kind == storeS3, "http.redirect.at", c.HTTP.Redirect.At, "needs store.kind s3: files in a directory have no URL of their own")
	c.Download.check(&is, c.TLS.given())
	c.Drop.check(&is)
	c.Serve.Check(&is, c.HTTP.Public)
	c.Login.check(&is)
	if host, _, _ := net.SplitHostPort(c.HTTP.Listen); c.HTTP.Public == "" && !peer.IsLoopback(host) { // on loopback, robots can use this address
		is.Require(c.Serve.Watch.Mail.Address == "", "watch.mail.server", c.Serve.Watch.Mail.Address, "needs http.public: mails have links to the service")
		is.Require(c.Login.OIDC.Issuer == "", "login.oidc.issuer", c.Login.OIDC.Issuer, "needs http.public: the provider sends browsers back to it")
	}
	c.Manager.Balance.Check(&is)
	return is.Err()
}

// database returns the data source of the control database; see db.Open.
func (c *Config) database() string {
	return cmp.Or(c.Database.URL, filepath.Join(c.Data, "sheaf.db"))
}

// Roles of a process. Each role has the paths and the work of one room.
const (
	roleManager = "manager" // robots' lists, logs and releases; plans which robot collects which host
	roleIngest  = "ingest"  // accepts batches, publishes them, and maintains the catalog
	roleServe   = "serve"   // hands out archives
)

// allRoles returns all roles. They are the default.
func allRoles() []string { return []string{roleManager, roleIngest, roleServe} }

func (c *Config) checkRoles(is *settings.Checks) {
	want := "want some of " + strings.Join(allRoles(), ", ")
	for n, role := range c.Roles {
		is.Require(slices.Contains(allRoles(), role), "roles", role, want)
		is.Require(!slices.Contains(c.Roles[:n], role), "roles", role, "given twice")
	}
	is.Require(len(c.Roles) > 0, "roles", "", want)
	is.Require(len(c.Roles) == 0 || !c.split() || c.Database.URL != "", "roles", strings.Join(c.Roles, ","),
		"leaves roles to other processes, but a SQLite file is for one process alone: set database.url to a PostgreSQL database")
}

// has reports whether the process has at least one of the roles.
func (c *Config) has(roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(c.Roles, role) })
}

// split reports whether other processes have some of the roles.
func (c *Config) split() bool { return !c.has(roleManager) || !c.has(roleIngest) || !c.has(roleServe) }

// readOnly reports whether read access to the store is enough for the process.
func (c *Config) readOnly() bool { return !c.has(roleManager, roleIngest) }

// confined returns the store with the write access that this process needs: to everything for
// roleIngest, to the robots' programs for roleManager, and to the results of consumers' jobs for
// roleServe.
func (c *Config) confined(objects store.Store) store.Store {
	if c.has(roleIngest) {
		return objects
	}
	var own []string
	if c.has(roleManager) {
		own = append(own, manager.StorePrefix)
	}
	if c.has(roleServe) {
		own = append(own, serve.StorePrefix)
	}
	return store.NewConfined(objects, own...)
}

// notFound answers 404. If other processes have some of the roles, the answer says so.
func (c *Config) notFound(w http.ResponseWriter, r *http.Request) error {
	if c.split() {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%s is not here; this process has the roles %s, others have the rest", r.URL.Path, strings.Join(c.Roles, ", ")))
	}
	problem.NotFound(w, r)
	return nil
}

// Login is the settings for logging in with a browser.
type Login struct {
	operators.Settings `mapstructure:",squash"`
	OIDC               login.Provider `mapstructure:"oidc"`
}

func (l *Login) check(is *settings.Checks) {
	l.Settings.Check(is)
	o := &l.OIDC
	if o.Issuer == "" {
		return
	}
	u, err := url.Parse(o.Issuer)
	is.Require(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && peer.IsLoopback(u.Hostname())), "login.oidc.issuer", o.Issuer,
		"want the https URL of an OpenID provider")
	is.Require(o.ClientID != "", "login.oidc.client_id", o.ClientID, "is needed with login.oidc.issuer")
	is.Require(o.ClientSecret == "" || o.ClientSecretFile == "", "login.oidc.client_secret_file", o.ClientSecretFile, "give login.oidc.client_secret or this")
	is.Require(len(o.Rules) > 0, "login.oidc.rules", "", "want rules that say who is who, such as {claim: email, value: \"*@example.jp\", account: readers}")
	for i, r := range o.Rules {
		wrong := r.Check()
		is.Require(wrong == "", fmt.Sprintf("login.oidc.rules[%d]", i), fmt.Sprintf("%s=%s", r.Claim, r.Value), wrong)
	}
}

// provider returns the OpenID provider of the settings, or nil if they name no provider. base is
// the service's URL.
func (l *Login) provider(base string) (*login.OIDC, error) {
	p := l.OIDC
	if p.Issuer == "" {
		return nil, nil
	}
	if err := settings.ReadSecret("login.oidc.client_secret_file", p.ClientSecretFile, &p.ClientSecret); err != nil {
		return nil, err
	}
	return &login.OIDC{Provider: p, Base: base}, nil
}

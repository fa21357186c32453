package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"

	"sheaf/archive/catalog"
	"sheaf/ingest/foreign"
	"sheaf/internal/db"
	"sheaf/internal/logs"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/session"
	"sheaf/internal/settings"
	"sheaf/internal/window"
	"sheaf/serve/account"
)

// Config is the service's settings. deploy/sheaf.yaml says what each does.
type Config struct {
	Data  string   `mapstructure:"data"`  // directory; one process at a time may use it, or several that share a PostgreSQL database
	Roles []string `mapstructure:"roles"` // of this process: roleManager, roleIngest, roleServe
	Zone  string   `mapstructure:"zone"`  // time zone of editions, and of windows that name none

	Database struct {
		URL   string        `mapstructure:"url" secret:"yes"`  // of PostgreSQL; empty: a SQLite file in Data
		Seal  string        `mapstructure:"seal" secret:"yes"` // key that seals the service's keys in the database; empty: they lie in Data only
		Wait  time.Duration `mapstructure:"wait"`              // for PostgreSQL at the start
		Fresh bool          `mapstructure:"fresh"`             // allow an empty database with a store that has archives
	} `mapstructure:"database"`
	Store Store `mapstructure:"store"`
	Lease Lease `mapstructure:"lease"`

	TLS      TLS      `mapstructure:"tls"`
	HTTP     HTTP     `mapstructure:"http"`
	Observe  Observe  `mapstructure:",squash"`
	Download Download `mapstructure:"download"`
	Drop     Drop     `mapstructure:"drop"`

	Ingest  Ingest  `mapstructure:",squash"`
	Manager Manager `mapstructure:",squash"`
	Serve   Serve   `mapstructure:",squash"`

	Login Login `mapstructure:"login"`

	Operators Operators `mapstructure:"operators"`
	Audit     Audit     `mapstructure:"audit"`
	Transfers struct {
		Keep      time.Duration `mapstructure:"keep"`      // how long single transfers are kept; 0: for ever
		Addresses time.Duration `mapstructure:"addresses"` // how long downloads have their clients' addresses; 0: as long as they are kept
	} `mapstructure:"transfers"`

	Poll time.Duration `mapstructure:"poll"` // between two looks for work
	Stop time.Duration `mapstructure:"stop"` // how long running transfers may take at a stop
}

// Observe is how a process shows what it does.
type Observe struct {
	Metrics string        `mapstructure:"metrics"` // host:port of metrics and profiles; empty: none
	Log     logs.Settings `mapstructure:"log"`
}

// Ingest is the settings of the room that accepts and publishes batches.
type Ingest struct {
	Uploads struct {
		Full    int `mapstructure:"full"`    // per cent of a disk, above which uploads are refused
		Drained int `mapstructure:"drained"` // per cent of a disk, below which they are accepted again
		Least   int `mapstructure:"least"`   // bytes a second, averaged over five minutes; 0: no minimum

		Accepted string `mapstructure:"accepted"` // where accepted batches lie: inDirectory or inStore
	} `mapstructure:"uploads"`
	Import struct {
		MaxBytes   int64 `mapstructure:"max_bytes"`   // of a file when it is expanded
		MaxEntries int   `mapstructure:"max_entries"` // of a tar, or records of a WARC
	} `mapstructure:"import"`
	Publish struct {
		Window string `mapstructure:"window"` // see package window
	} `mapstructure:"publish"`
	Packs struct {
		Below int64 `mapstructure:"below"` // bytes; smaller hosts share objects; 0: none does
		Size  int64 `mapstructure:"size"`  // of a shared object, about
	} `mapstructure:"packs"`
	Collect struct {
		Every time.Duration `mapstructure:"every"`
		Delay time.Duration `mapstructure:"delay"` // how long an object that nothing needs is kept
		Keep  time.Duration `mapstructure:"keep"`  // how long editions are kept; 0: for ever
	} `mapstructure:"collect"`
	Tables struct {
		Editions int `mapstructure:"editions"` // how many, the newest ones, have tables; 0: none
	} `mapstructure:"tables"`
	Volumes struct {
		Current []string      `mapstructure:"current"` // top-level domains that have volumes of the latest versions
		Every   time.Duration `mapstructure:"every"`   // how old these get before the next are made
	} `mapstructure:"volumes"`
}

// Where accepted batches lie until they are published.
const (
	inDirectory = "directory" // in the data directory, which all processes that ingest share
	inStore     = "store"     // in the object store; each process may have a data directory of its own
)

// Manager is the settings of the room that looks after robots and hosts.
type Manager struct {
	Hosts struct {
		Suffixes  []string `mapstructure:"suffixes"`   // domains whose hosts robots may add
		Refuse    []string `mapstructure:"refuse"`     // domains within them whose hosts they may not
		PerDomain int      `mapstructure:"per_domain"` // hosts of one registered domain; 0: any number
	} `mapstructure:"hosts"`
	Balance  Balance `mapstructure:"balance"`
	Partners struct {
		Notices bool `mapstructure:"notices"` // tell robots' sites by mail when their robot is silent or stuck
	} `mapstructure:"partners"`
}

// Serve is the settings of the room that hands out archives.
type Serve struct {
	Site struct {
		Name  string `mapstructure:"name"`  // of the archive, on the pages for people
		About string `mapstructure:"about"` // whose it is and what for, in a sentence or two
	} `mapstructure:"site"`
	Access Access `mapstructure:"access"`
	Watch  Watch  `mapstructure:"watch"`
	Replay struct {
		Dir    string `mapstructure:"dir"`    // with ui.js and sw.js of ReplayWeb.page; empty: not offered
		Origin string `mapstructure:"origin"` // such as https://replay.example.jp; empty: not offered
	} `mapstructure:"replay"`
}

// defaultMetrics is the address of metrics if the settings name none.
const defaultMetrics = "127.0.0.1:9465"

// defaults returns the settings that hold where nothing else is said.
func defaults() Config {
	c := Config{
		Data: "sheaf-data", Roles: allRoles(), Zone: "Asia/Tokyo",
		Store:    Store{Kind: storeFS, Region: "us-east-1", Reads: 64, Writes: 16, Attempts: 5},
		Lease:    Lease{Kind: leaseDatabase, TTL: 10 * time.Second},
		TLS:      TLS{ACME: ACME{Directory: defaultDirectory}, HSTS: 180 * 24 * time.Hour},
		HTTP:     HTTP{Listen: "127.0.0.1:8080", Connections: 10_000, PerAddress: 200},
		Observe:  Observe{Metrics: defaultMetrics, Log: logs.Default()},
		Download: Download{FTP: FTP{Listen: "127.0.0.1:2121", Ports: []int{0, 0}}, Active: true, Idle: 5 * time.Minute, DataTimeout: time.Minute, Connections: 1000, PerAddress: 50, PerAccount: 20},
		Drop:     Drop{FTP: FTP{Listen: "127.0.0.1:2122", Ports: []int{0, 0}}, Quiet: 10 * time.Minute, CutOff: 24 * time.Hour},
		Manager:  Manager{Balance: Balance{At: "01:00", During: true, Lease: 24 * time.Hour, Probes: 4, Window: 6 * time.Hour, Split: true}},
		Serve:    Serve{Access: Access{Offline: 12 * time.Hour, Grace: 10 * time.Minute}, Watch: Watch{Limit: 1000, Mail: Mail{TLS: string(mailer.StartTLS)}}},
		Poll:     30 * time.Second, Stop: 20 * time.Second,
	}
	c.Database.Wait = 5 * time.Minute
	c.HTTP.Redirect.Expires = 10 * time.Minute
	c.Store.Scrub.Every, c.Store.Scrub.Rate = 30*24*time.Hour, 16<<20
	c.Ingest.Uploads.Full, c.Ingest.Uploads.Drained, c.Ingest.Uploads.Least = 85, 75, 10
	c.Ingest.Uploads.Accepted = inDirectory
	c.Ingest.Import.MaxBytes, c.Ingest.Import.MaxEntries = foreign.DefaultBytes, foreign.DefaultEntries
	c.Ingest.Publish.Window = "12:00-13:00"
	c.Ingest.Packs.Size = 256 << 20
	c.Ingest.Collect.Every, c.Ingest.Collect.Delay = 6*time.Hour, catalog.MinDelay
	c.Ingest.Tables.Editions = 30
	c.Ingest.Volumes.Every = 24 * time.Hour
	c.Login.Passwords = passwords.DefaultCost
	c.Login.Idle, c.Login.Life = session.DefaultIdle, session.DefaultLife
	c.Login.OIDC.Scopes = []string{"profile", "email"}
	c.Transfers.Keep, c.Transfers.Addresses = 400*24*time.Hour, 90*24*time.Hour
	c.Audit.Keep, c.Audit.Addresses = 3*365*24*time.Hour, 365*24*time.Hour
	c.Operators.TokenName = "token"
	c.Serve.Site.Name = "Web archive"
	c.Manager.Partners.Notices = true
	c.Manager.Hosts.Suffixes, c.Manager.Hosts.PerDomain = []string{"jp"}, 1000
	return c
}

// Load reads the settings from a YAML file (none if file is empty), the environment
// (SHEAF_HTTP_LISTEN for http.listen) and overrides by key, the later the stronger. The error names
// every setting that cannot be used.
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
// operators' commands read SHEAF_DATA too; a variable that was left over would start another
// service than the file's.
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

// Texts that several checks share.
const (
	wantAddress  = "want host:port, such as 0.0.0.0:8080"
	wantPositive = "must be above 0"
	wantNatural  = "must be 0 or more"
)

// leastKept is the minimum of collect.keep: a consumer that comes once a day misses no edition.
const leastKept = 48 * time.Hour

// check returns the errors of all settings that cannot be used, or nil.
func (c *Config) check() error {
	var is settings.Checks
	is.Require(c.Data != "", "data", c.Data, "want a directory")
	is.Require(c.Database.URL == "" || db.IsPostgres(c.Database.URL), "database.url", "…", "must begin with postgres://") // the value may have a password
	is.Require(c.Database.Wait >= 0, "database.wait", c.Database.Wait, wantNatural)
	if c.Database.Seal != "" {
		_, err := newSeal(c.Database.Seal)
		is.Require(err == nil, "database.seal", "…", fmt.Sprint(err))
	}
	_, err := time.LoadLocation(c.Zone)
	is.Require(err == nil && c.Zone != "", "zone", c.Zone, "not a time zone; want one such as Asia/Tokyo")
	_, err = c.publishWindow()
	is.Require(err == nil, "publish.window", c.Ingest.Publish.Window, fmt.Sprint(err))
	is.Require(c.Manager.Hosts.PerDomain >= 0, "hosts.per_domain", c.Manager.Hosts.PerDomain, wantNatural)
	is.Require(c.Transfers.Keep >= 0, "transfers.keep", c.Transfers.Keep, wantNatural)
	is.Require(c.Observe.Metrics == "" || isAddress(c.Observe.Metrics), "metrics", c.Observe.Metrics, "want host:port, such as "+defaultMetrics+", or nothing")
	is.Require(c.Transfers.Addresses >= 0, "transfers.addresses", c.Transfers.Addresses, wantNatural)
	is.Require(operators.ValidName(c.Operators.TokenName), "operators.token_name", c.Operators.TokenName, "want lower-case letters, digits, dots, hyphens or underscores")
	c.Audit.check(&is)
	is.Require(c.Poll > 0, "poll", c.Poll, wantPositive)
	c.checkReplayOrigin(&is)
	c.checkRoles(&is)
	c.Observe.Log.Check(&is)
	c.Store.check(&is)
	c.Ingest.check(&is)
	c.Lease.check(&is)
	c.TLS.check(&is)
	c.HTTP.check(&is)
	is.Require(c.HTTP.Redirect.At == 0 || c.Store.Kind == storeS3, "http.redirect.at", c.HTTP.Redirect.At, "needs store.kind s3: files in a directory have no URL of their own")
	c.Download.check(&is, c.TLS.given())
	c.Drop.check(&is)
	c.Serve.Access.check(&is)
	c.Serve.Watch.check(&is)
	c.Login.check(&is)
	c.Manager.Balance.check(&is)
	return is.Err()
}

func (c *Ingest) check(is *settings.Checks) {
	is.Require(c.Packs.Size > 0, "packs.size", c.Packs.Size, wantPositive)
	is.Require(0 <= c.Packs.Below && c.Packs.Below <= c.Packs.Size, "packs.below", c.Packs.Below,
		fmt.Sprintf("want 0 to packs.size, which is %d bytes", c.Packs.Size))
	is.Require(c.Collect.Every > 0, "collect.every", c.Collect.Every, wantPositive)
	is.Require(c.Collect.Delay >= catalog.MinDelay, "collect.delay", c.Collect.Delay, "want at least "+catalog.MinDelay.String())
	is.Require(c.Collect.Keep == 0 || c.Collect.Keep >= leastKept, "collect.keep", c.Collect.Keep, "want 0 or at least "+leastKept.String())
	is.Require(c.Tables.Editions >= 0, "tables.editions", c.Tables.Editions, wantNatural)
	is.Require(areTopLevel(c.Volumes.Current), "volumes.current", c.Volumes.Current, "want top-level domains, each once, such as [jp]")
	is.Require(c.Volumes.Every > 0, "volumes.every", c.Volumes.Every, wantPositive)
	is.Require(1 <= c.Uploads.Full && c.Uploads.Full <= 100, "uploads.full", c.Uploads.Full, "want 1 to 100 per cent")
	is.Require(1 <= c.Uploads.Drained && c.Uploads.Drained <= c.Uploads.Full, "uploads.drained", c.Uploads.Drained, "want 1 to uploads.full")
	is.Require(c.Uploads.Least >= 0, "uploads.least", c.Uploads.Least, wantNatural)
	is.Require(c.Uploads.Accepted == inDirectory || c.Uploads.Accepted == inStore, "uploads.accepted", c.Uploads.Accepted, "want "+inDirectory+" or "+inStore)
	is.Require(c.Import.MaxBytes > 0, "import.max_bytes", c.Import.MaxBytes, wantPositive)
	is.Require(c.Import.MaxEntries > 0, "import.max_entries", c.Import.MaxEntries, wantPositive)
}

// areTopLevel reports whether all are top-level domains, and none is there twice.
func areTopLevel(domains []string) bool {
	for i, d := range domains {
		if !account.IsDomain(d) || strings.Contains(d, ".") || slices.Contains(domains[:i], d) {
			return false
		}
	}
	return true
}

func (c *Config) checkReplayOrigin(is *settings.Checks) {
	origin := c.Serve.Replay.Origin
	if origin == "" {
		return
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		is.Require(false, "replay.origin", origin, "want scheme and host, such as https://replay.example.jp")
		return
	}
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	public, err := url.Parse(c.HTTP.Public)
	is.Require(err != nil || !strings.EqualFold(public.Hostname(), u.Hostname()) || port(public) != port(u), "replay.origin", origin,
		"is the origin of http.public; stored scripts need a name that nothing else uses")
}

// publishWindow returns publish.window, in the service's zone if it names none.
func (c *Config) publishWindow() (*window.Schedule, error) {
	text := strings.TrimSpace(c.Ingest.Publish.Window)
	if n := len(text); n > 0 && text[n-1] >= '0' && text[n-1] <= '9' { // ends in a time, not in a zone or a word
		text += " " + c.Zone
	}
	return window.Parse(text)
}

// database returns the data source of the control database; see db.Open.
func (c *Config) database() string {
	if c.Database.URL != "" {
		return c.Database.URL
	}
	return filepath.Join(c.Data, "sheaf.db")
}

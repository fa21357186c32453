package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"sheaf/internal/db"
	"sheaf/internal/settings"
	"sheaf/internal/window"
)

// Config is the service's settings. The names in a YAML file are those of the
// tags; in the environment they are upper case with SHEAF_ before and _ for the
// dots, such as SHEAF_HTTP_LISTEN. The comments are the manual.
type Config struct {
	// Data is the directory that holds everything: the database, the buffers,
	// the keys, and the archives unless Store says otherwise. One process at a time may
	// use it, or several that share a Database.
	Data string `mapstructure:"data"`
	// Roles are what this process does of manager, ingest and serve. Where it leaves some to
	// others, they meet in a PostgreSQL Database, and the settings of its missing roles are not used.
	Roles []string `mapstructure:"roles"`
	// Zone names the time zone of editions and of windows that name none.
	Zone string `mapstructure:"zone"`

	Database struct {
		// URL names a PostgreSQL database, such as postgres://sheaf@db.example.jp/sheaf,
		// which several processes on one data directory share; empty: a SQLite file
		// in the data directory, for one process alone.
		URL string `mapstructure:"url"`
		// Wait is how long a start waits for a PostgreSQL database that is away.
		Wait time.Duration `mapstructure:"wait"`
		// Fresh lets a start use an empty database beside a store that has archives: accounts, robots
		// and keys begin anew.
		Fresh bool `mapstructure:"fresh"`
	} `mapstructure:"database"`

	// Store is where the archives and the catalog lie.
	Store Store `mapstructure:"store"`

	// Lease is how several processes agree on who publishes, who collects and who plans.
	Lease Lease `mapstructure:"lease"`

	HTTP HTTP `mapstructure:"http"`

	// Download is the FTP server that consumers fetch archives from.
	Download Download `mapstructure:"download"`
	// Drop is the FTP server that robots may upload batches to.
	Drop Drop `mapstructure:"drop"`

	// Uploads bounds what robots upload, by either protocol.
	Uploads Uploads `mapstructure:"uploads"`

	// Import bounds what one foreign file may become.
	Import Import `mapstructure:"import"`

	// Watch is how consumers are told of changes.
	Watch Watch `mapstructure:"watch"`

	Publish struct {
		// Window says when new editions may become visible, such as "12:00-13:00",
		// the 1999 distributor's hour, or "always".
		Window string `mapstructure:"window"`
	} `mapstructure:"publish"`

	Packs Packs `mapstructure:"packs"`

	Collect Collect `mapstructure:"collect"`

	Hosts struct {
		// Suffixes are the domains whose hosts robots may discover and add, such as [jp].
		Suffixes []string `mapstructure:"suffixes"`
		// Refuse are domains whose hosts robots may not add, within Suffixes too.
		Refuse []string `mapstructure:"refuse"`
		// PerDomain is how many hosts of one registered domain robots may add; more wait for an operator; 0: any number.
		PerDomain int `mapstructure:"per_domain"`
	} `mapstructure:"hosts"`

	Balance Balance `mapstructure:"balance"`

	Replay struct {
		// Dir is a directory with the files ui.js and sw.js of ReplayWeb.page, which runs stored
		// pages with their scripts at /replay/; empty: not offered.
		Dir string `mapstructure:"dir"`
		// Origin is where it runs, such as https://replay.example.jp: a name of this service that nothing
		// else uses, since stored scripts run as that name's own. Without it /replay/ is not offered.
		Origin string `mapstructure:"origin"`
	} `mapstructure:"replay"`

	Access Access `mapstructure:"access"`

	// Poll is how often the ingest looks for work that nothing has told it of, and, at least every
	// 2 s, the watches.
	Poll time.Duration `mapstructure:"poll"`
	// Stop is how long running transfers may take to finish when the service stops.
	Stop time.Duration `mapstructure:"stop"`
}

// Load reads the settings from file (none when it is empty), the environment and
// the given overrides, the later the stronger. An unknown key or a value that
// does not fit stops it, with the key named.
func Load(file string, overrides map[string]any) (Config, error) {
	v := viper.New()
	defaults(v)
	v.SetEnvPrefix("SHEAF")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Config{}, fmt.Errorf("settings: %w", err)
		}
	}
	if _, given := overrides["data"]; file != "" && !given {
		if err := sameData(file); err != nil {
			return Config{}, err
		}
	}
	for key, value := range overrides {
		v.Set(key, value)
	}
	var c Config
	if err := settings.CheckKeys(v.AllKeys(), reflect.TypeFor[Config](), "."); err != nil {
		return c, err
	}
	err := v.UnmarshalExact(&c, viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(
		parse, size, mapstructure.StringToSliceHookFunc(","))))
	if err != nil {
		return Config{}, fmt.Errorf("settings: %w", err)
	}
	return c, c.check()
}

// sameData refuses a data directory in the environment that is another than the file's: an
// operator's command, which reads SHEAF_DATA too, or a variable that was left over would bring up
// another service than the file's.
func sameData(file string) error {
	v := viper.New()
	v.SetConfigFile(file)
	if err := v.ReadInConfig(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	const name = "SHEAF_DATA"
	if of, env := v.GetString("data"), os.Getenv(name); of != "" && env != "" && filepath.Clean(of) != filepath.Clean(env) {
		return fmt.Errorf("settings: data: %q in %s, and %q in the environment (%s); unset that, or say which with --data", of, file, env, name)
	}
	return nil
}

// parse reads durations and numbers, and names the one that it cannot read.
func parse(_, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	switch {
	case !ok:
		return value, nil
	case to == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no duration, such as 90s or 10m", text)
		}
		return d, nil
	case to.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", text)
		}
		return n, nil
	}
	return value, nil
}

func (c *Config) check() error {
	bad := func(key string, value any, why string) error {
		return fmt.Errorf("settings: %s: %q %s", key, fmt.Sprint(value), why)
	}
	var errs []error
	if c.Data == "" {
		errs = append(errs, bad("data", c.Data, "names no directory"))
	}
	if c.Database.URL != "" && !db.IsPostgres(c.Database.URL) {
		errs = append(errs, errors.New("settings: database.url: does not begin with postgres://")) // it may hold a password
	}
	if c.Database.Wait < 0 {
		errs = append(errs, bad("database.wait", c.Database.Wait, "is negative"))
	}
	errs = append(errs, c.checkRoles(bad)...)
	errs = append(errs, c.Store.check(bad)...)
	errs = append(errs, c.Lease.check(bad)...)
	if _, err := time.LoadLocation(c.Zone); err != nil || c.Zone == "" {
		errs = append(errs, bad("zone", c.Zone, "is no time zone, such as Asia/Tokyo"))
	}
	if _, err := c.publishWindow(); err != nil {
		errs = append(errs, bad("publish.window", c.Publish.Window, "is no window: "+err.Error()))
	}
	errs = append(errs, c.HTTP.check(bad)...)
	errs = append(errs, c.Download.check(bad)...)
	errs = append(errs, c.Drop.check(bad)...)
	errs = append(errs, c.Access.check(bad)...)
	errs = append(errs, c.Packs.check(bad)...)
	errs = append(errs, c.Collect.check(bad)...)
	errs = append(errs, c.Watch.check(bad)...)
	errs = append(errs, c.Uploads.check(bad)...)
	errs = append(errs, c.Import.check(bad)...)
	if c.Hosts.PerDomain < 0 {
		errs = append(errs, bad("hosts.per_domain", c.Hosts.PerDomain, "is below 0"))
	}
	errs = append(errs, c.Balance.check(bad)...)
	if why := c.badReplayOrigin(); why != "" {
		errs = append(errs, bad("replay.origin", c.Replay.Origin, why))
	}
	if c.Poll <= 0 {
		errs = append(errs, bad("poll", c.Poll, "is not positive"))
	}
	return errors.Join(errs...)
}

// badReplayOrigin says why replay.origin cannot be.
func (c *Config) badReplayOrigin() string {
	if c.Replay.Origin == "" {
		return ""
	}
	u, err := url.Parse(c.Replay.Origin)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "is no origin, such as https://replay.example.jp"
	}
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if public, err := url.Parse(c.HTTP.Public); err == nil && strings.EqualFold(public.Hostname(), u.Hostname()) && port(public) == port(u) {
		return "is that of http.public; stored scripts need a name that nothing else uses"
	}
	return ""
}

// publishWindow puts the service's zone where the setting names none.
func (c *Config) publishWindow() (*window.Schedule, error) {
	text := strings.TrimSpace(c.Publish.Window)
	if n := len(text); n > 0 && text[n-1] >= '0' && text[n-1] <= '9' { // ends in a time, not in a zone or a word
		text += " " + c.Zone
	}
	return window.Parse(text)
}

// database is the source of the control database.
func (c *Config) database() string {
	if c.Database.URL != "" {
		return c.Database.URL
	}
	return filepath.Join(c.Data, "sheaf.db")
}

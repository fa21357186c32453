package service

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/bandwidth"
	"sheaf/serve/watch"
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
	} `mapstructure:"database"`

	// Store is where the archives and the catalog lie.
	Store Store `mapstructure:"store"`

	// Lease is how several processes agree on who publishes, who collects and who plans.
	Lease Lease `mapstructure:"lease"`

	HTTP struct {
		// Listen is the address of robots' and consumers' HTTP.
		Listen string `mapstructure:"listen"`
		// Cert and Key are PEM files; with them HTTP is served over TLS.
		Cert string `mapstructure:"cert"`
		Key  string `mapstructure:"key"`
		// Public is the URL under which robots reach the service, where that is not Listen.
		Public string `mapstructure:"public"`
		// Connections is how many connections may be open at once; beyond that those
		// that are idle go. 0: any number.
		Connections int `mapstructure:"connections"`
		// PerAddress is how many of them may come from one address, loopback
		// aside; 0: any number.
		PerAddress int `mapstructure:"per_address"`
	} `mapstructure:"http"`

	// Download is the FTP server that consumers fetch archives from.
	Download Download `mapstructure:"download"`
	// Drop is the FTP server that robots may upload batches to.
	Drop Drop `mapstructure:"drop"`

	Uploads struct {
		// Least is how many bytes a second an upload must bring, on an average of
		// five minutes, or it is let go and goes on later; 0: any number.
		Least int `mapstructure:"least"`
	} `mapstructure:"uploads"`

	// Watch is how consumers are told of changes.
	Watch Watch `mapstructure:"watch"`

	Publish struct {
		// Window says when new editions may become visible, such as "12:00-13:00",
		// the 1999 distributor's hour, or "always".
		Window string `mapstructure:"window"`
	} `mapstructure:"publish"`

	Packs struct {
		// Below gives hosts whose part of a batch is smaller than this an object
		// in the store together with others, such as 1MiB; 0: every host its own.
		Below Size `mapstructure:"below"`
		// Size is about how large such an object becomes.
		Size Size `mapstructure:"size"`
	} `mapstructure:"packs"`

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
		// pages with their scripts at /replay/, as this service's own; empty: not offered.
		Dir string `mapstructure:"dir"`
	} `mapstructure:"replay"`

	Access struct {
		// Anonymous are the domains whose archives everybody may fetch, such as [jp]; empty: nobody without an account.
		Anonymous []string `mapstructure:"anonymous"`
		// Offline is how long, once the database is away, those may log in whose accounts were known before; 0: not at all.
		Offline time.Duration `mapstructure:"offline"`
		// Grace is how long a transfer that began within a download window may run on after it.
		Grace time.Duration `mapstructure:"grace"`
		// Rate is how many bytes a second all downloads together may have, such as 100MiB or
		// "20MiB Mon-Fri 09:00-18:00 | 100MiB"; accounts share it evenly. Empty: no limit.
		Rate string `mapstructure:"rate"`
		// AnonymousRate is the same for all those without an account together.
		AnonymousRate string `mapstructure:"anonymous_rate"`
		// Contact is whom consumers may ask, such as ops@example.jp; it stands in /README
		// and in what FTP tells those whom it turns away.
		Contact string `mapstructure:"contact"`
	} `mapstructure:"access"`

	// Poll is how often the ingest looks for work that nothing has told it of.
	Poll time.Duration `mapstructure:"poll"`
	// Stop is how long running transfers may take to finish when the service stops.
	Stop time.Duration `mapstructure:"stop"`
}

// leastKept is the shortest collect.keep: consumers that come once a day miss no edition.
const leastKept = 48 * time.Hour

// Collect is when what nothing needs any more is deleted.
type Collect struct {
	// Every is how often the store is gone through.
	Every time.Duration `mapstructure:"every"`
	// Delay is how long an object that nothing needs is kept; at least 24h, twice as long as a reader may hold a version.
	Delay time.Duration `mapstructure:"delay"`
	// Keep is how long a host's editions are kept, such as 720h; 0: for ever. A longer
	// time is kept what current is made of, and what later editions refer to.
	Keep time.Duration `mapstructure:"keep"`
}

// Download is the settings of the FTP listener for consumers.
type Download struct {
	FTP `mapstructure:",squash"`
	// Greeting is the first line that clients see; empty: a plain one.
	Greeting string `mapstructure:"greeting"`
	// RequireTLS refuses passwords and data in clear text.
	RequireTLS bool `mapstructure:"require_tls"`
	// Active is whether data connections may be made by the server, to the client's own address (PORT, EPRT).
	Active bool `mapstructure:"active"`
	// Idle is how long a client may be silent between two commands.
	Idle time.Duration `mapstructure:"idle"`
	// DataTimeout is how long a data connection may take to open, or stand still.
	DataTimeout time.Duration `mapstructure:"data_timeout"`
	// Connections is how many there may be at once; of them PerAddress from one
	// address (of IPv6, a /64 network) and PerAccount of one account.
	Connections int `mapstructure:"connections"`
	PerAddress  int `mapstructure:"per_address"`
	PerAccount  int `mapstructure:"per_account"`
}

// check names the settings that cannot be.
func (d *Download) check(bad func(key string, value any, why string) error) []error {
	var errs []error
	if d.RequireTLS && d.Cert == "" {
		errs = append(errs, bad("download.require_tls", d.RequireTLS, "needs download.cert"))
	}
	for key, v := range map[string]time.Duration{"idle": d.Idle, "data_timeout": d.DataTimeout} {
		if v <= 0 {
			errs = append(errs, bad("download."+key, v, "is not positive"))
		}
	}
	for key, n := range map[string]int{"connections": d.Connections, "per_address": d.PerAddress, "per_account": d.PerAccount} {
		if n <= 0 {
			errs = append(errs, bad("download."+key, n, "is not positive"))
		}
	}
	return errs
}

// FTP is one FTP listener's settings.
type FTP struct {
	// Listen is the control connection's address; empty: no such server.
	Listen string `mapstructure:"listen"`
	// Public is the IPv4 address that passive mode announces, where it is not the local one.
	Public string `mapstructure:"public"`
	// Ports is the passive mode's range, such as [50000, 50999]; [0, 0]: any.
	Ports []int `mapstructure:"ports"`
	// Cert and Key are PEM files; with them clients may use AUTH TLS.
	Cert string `mapstructure:"cert"`
	Key  string `mapstructure:"key"`
}

// Drop is the settings of the FTP listener for batches.
type Drop struct {
	FTP `mapstructure:",squash"`
	// Quiet is after how long without a byte a file without manifest is read and,
	// if it is a whole batch, taken; 0: never, every batch needs its manifest.
	Quiet time.Duration `mapstructure:"quiet"`
	// CutOff is how long such a file may stay cut off before it is put into the
	// quarantine, where its name is not a batch's, which a robot may still go on with.
	CutOff time.Duration `mapstructure:"cut_off"`
	// Hosts is a file with the hosts of directories in the trees that old robots
	// send, where the directories are not called by them: lines of directory and host; empty: there are none.
	Hosts string `mapstructure:"hosts"`
}

// defaults are the settings where nothing is said.
func defaults(v *viper.Viper) {
	v.SetDefault("data", "sheaf-data")
	v.SetDefault("roles", allRoles())
	v.SetDefault("zone", "Asia/Tokyo")
	v.SetDefault("database.url", "")
	v.SetDefault("store.kind", storeFS)
	for _, key := range []string{"endpoint", "bucket", "prefix", "ca", "access_key", "secret_key", "secret_key_file"} {
		v.SetDefault("store."+key, "")
	}
	v.SetDefault("store.region", "us-east-1")
	v.SetDefault("store.reads", 64)
	v.SetDefault("store.writes", 16)
	v.SetDefault("store.attempts", 5)
	v.SetDefault("lease.kind", leaseDatabase)
	v.SetDefault("lease.ttl", 10*time.Second)
	v.SetDefault("lease.etcd.endpoints", []string{})
	v.SetDefault("lease.etcd.prefix", "sheaf")
	for _, key := range []string{"ca", "cert", "key", "username", "password"} {
		v.SetDefault("lease.etcd."+key, "")
	}
	v.SetDefault("http.listen", "127.0.0.1:8080")
	v.SetDefault("http.cert", "")
	v.SetDefault("http.connections", 10000)
	v.SetDefault("http.per_address", 200)
	v.SetDefault("http.key", "")
	v.SetDefault("http.public", "")
	v.SetDefault("download.listen", "127.0.0.1:2121")
	v.SetDefault("drop.listen", "127.0.0.1:2122")
	for _, server := range []string{"download", "drop"} {
		v.SetDefault(server+".public", "")
		v.SetDefault(server+".ports", []int{0, 0})
		v.SetDefault(server+".cert", "")
		v.SetDefault(server+".key", "")
	}
	v.SetDefault("download.greeting", "")
	v.SetDefault("download.require_tls", false)
	v.SetDefault("download.active", true)
	v.SetDefault("download.idle", 5*time.Minute)
	v.SetDefault("download.data_timeout", time.Minute)
	v.SetDefault("download.connections", 1000)
	v.SetDefault("download.per_address", 50)
	v.SetDefault("download.per_account", 20)
	v.SetDefault("drop.hosts", "")
	v.SetDefault("watch.limit", 1000)
	v.SetDefault("watch.confirmed", false)
	v.SetDefault("watch.private_webhooks", false)
	v.SetDefault("watch.mail.server", "")
	v.SetDefault("watch.mail.from", "")
	v.SetDefault("watch.mail.tls", string(watch.StartTLS))
	v.SetDefault("watch.mail.user", "")
	v.SetDefault("watch.mail.password_file", "")
	v.SetDefault("watch.mail.roots", "")
	v.SetDefault("drop.quiet", 10*time.Minute)
	v.SetDefault("drop.cut_off", 24*time.Hour)
	v.SetDefault("uploads.least", 10)
	v.SetDefault("publish.window", "12:00-13:00")
	v.SetDefault("packs.below", "0")
	v.SetDefault("packs.size", "256MiB")
	v.SetDefault("collect.every", 6*time.Hour)
	v.SetDefault("collect.delay", catalog.MinDelay)
	v.SetDefault("collect.keep", time.Duration(0))
	v.SetDefault("hosts.suffixes", []string{"jp"})
	v.SetDefault("hosts.refuse", []string{})
	v.SetDefault("hosts.per_domain", 1000)
	v.SetDefault("balance.at", "01:00")
	v.SetDefault("balance.during", true)
	v.SetDefault("balance.lease", 6*time.Hour)
	v.SetDefault("balance.probes", 4)
	v.SetDefault("balance.window", 6*time.Hour)
	v.SetDefault("balance.split", true)
	v.SetDefault("replay.dir", "")
	v.SetDefault("access.anonymous", []string{})
	v.SetDefault("access.offline", 12*time.Hour)
	v.SetDefault("access.grace", 10*time.Minute)
	for _, key := range []string{"rate", "anonymous_rate", "contact"} {
		v.SetDefault("access."+key, "")
	}
	v.SetDefault("poll", 30*time.Second)
	v.SetDefault("stop", 20*time.Second)
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
	for key, value := range overrides {
		v.Set(key, value)
	}
	var c Config
	err := v.UnmarshalExact(&c, viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(
		parse, size, mapstructure.StringToSliceHookFunc(","))))
	if err != nil {
		return Config{}, fmt.Errorf("settings: %w", err)
	}
	return c, c.check()
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
	errs = append(errs, c.checkRoles(bad)...)
	errs = append(errs, c.Store.check(bad)...)
	errs = append(errs, c.Lease.check(bad)...)
	if _, err := time.LoadLocation(c.Zone); err != nil || c.Zone == "" {
		errs = append(errs, bad("zone", c.Zone, "is no time zone, such as Asia/Tokyo"))
	}
	if _, err := c.publishWindow(); err != nil {
		errs = append(errs, bad("publish.window", c.Publish.Window, "is no window: "+err.Error()))
	}
	for key, addr := range map[string]string{"http.listen": c.HTTP.Listen, "download.listen": c.Download.Listen, "drop.listen": c.Drop.Listen} {
		if addr == "" && key != "http.listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, bad(key, addr, "is no address, such as 0.0.0.0:8080"))
		}
	}
	if (c.HTTP.Cert == "") != (c.HTTP.Key == "") {
		errs = append(errs, bad("http.cert", c.HTTP.Cert, "needs http.key, and the other way round"))
	}
	if u, err := url.Parse(c.HTTP.Public); c.HTTP.Public != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, bad("http.public", c.HTTP.Public, "is no URL, such as https://archive.example.jp"))
	}
	for key, f := range map[string]FTP{"download": c.Download.FTP, "drop": c.Drop.FTP} {
		if f.Public != "" && net.ParseIP(f.Public).To4() == nil {
			errs = append(errs, bad(key+".public", f.Public, "is no IPv4 address"))
		}
		if len(f.Ports) != 2 || f.Ports[0] < 0 || f.Ports[0] > f.Ports[1] || f.Ports[1] > 65535 {
			errs = append(errs, bad(key+".ports", f.Ports, "is no range of ports, such as [50000, 50999]"))
		}
		if (f.Cert == "") != (f.Key == "") {
			errs = append(errs, bad(key+".cert", f.Cert, "needs "+key+".key, and the other way round"))
		}
	}
	errs = append(errs, c.Download.check(bad)...)
	for key, text := range map[string]string{"access.rate": c.Access.Rate, "access.anonymous_rate": c.Access.AnonymousRate} {
		if _, err := rates(text); err != nil {
			errs = append(errs, bad(key, text, "is no rate: "+err.Error()))
		}
	}
	errs = append(errs, c.Watch.check(bad)...)
	if c.Drop.Quiet < 0 {
		errs = append(errs, bad("drop.quiet", c.Drop.Quiet, "is negative"))
	}
	if c.Drop.CutOff <= 0 || c.Drop.CutOff < c.Drop.Quiet {
		errs = append(errs, bad("drop.cut_off", c.Drop.CutOff, "is not positive, or is less than drop.quiet"))
	}
	if c.Uploads.Least < 0 {
		errs = append(errs, bad("uploads.least", c.Uploads.Least, "is negative"))
	}
	if c.Packs.Size <= 0 {
		errs = append(errs, bad("packs.size", int64(c.Packs.Size), "is not positive"))
	}
	if c.Packs.Below < 0 || c.Packs.Below > c.Packs.Size {
		errs = append(errs, bad("packs.below", int64(c.Packs.Below), fmt.Sprintf("is not from 0 to packs.size, %d bytes", c.Packs.Size)))
	}
	if c.Collect.Every <= 0 {
		errs = append(errs, bad("collect.every", c.Collect.Every, "is not positive"))
	}
	if c.Collect.Delay < catalog.MinDelay {
		errs = append(errs, bad("collect.delay", c.Collect.Delay, "is less than "+catalog.MinDelay.String()))
	}
	if c.Collect.Keep < 0 || c.Collect.Keep > 0 && c.Collect.Keep < leastKept {
		errs = append(errs, bad("collect.keep", c.Collect.Keep, "is neither 0 nor at least "+leastKept.String()))
	}
	if c.Hosts.PerDomain < 0 {
		errs = append(errs, bad("hosts.per_domain", c.Hosts.PerDomain, "is below 0"))
	}
	if c.Access.Offline < 0 {
		errs = append(errs, bad("access.offline", c.Access.Offline, "is negative"))
	}
	errs = append(errs, c.Balance.check(bad)...)
	if c.Poll <= 0 {
		errs = append(errs, bad("poll", c.Poll, "is not positive"))
	}
	return errors.Join(errs...)
}

// anonymous is the account of those who give no credentials, nil where there is none.
func (c *Config) anonymous() *serve.Account {
	if len(c.Access.Anonymous) == 0 {
		return nil
	}
	rate, _ := rates(c.Access.AnonymousRate) // was checked
	return &serve.Account{Name: serve.Anonymous, Domains: c.Access.Anonymous, Rate: rate}
}

// rates reads a rate; the empty text is no limit.
func rates(text string) (*bandwidth.Rates, error) {
	if text == "" {
		return nil, nil
	}
	return bandwidth.ParseRates(text)
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

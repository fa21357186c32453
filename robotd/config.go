package robotd

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"sheaf/internal/window"
	"sheaf/robotd/schedule"
)

// Config holds the settings. Each can stand in a YAML file under the name in its
// tag, or in the environment: upload.poll is ROBOTD_UPLOAD_POLL there.
type Config struct {
	// DataDir is the robot's folder; see the package comment for what is in it.
	DataDir string `mapstructure:"data"`

	// Manager is the URL of the service. "robotd join" remembers it, so it
	// need be set only where it has moved.
	Manager string `mapstructure:"manager"`

	// Contact is where the people behind the robot can be reached: a URL or a
	// mail address. It stands in every request. Required.
	Contact string `mapstructure:"contact"`

	// Interval lies between two accesses to one IP address.
	Interval time.Duration `mapstructure:"interval"`

	// Concurrency is how many hosts are visited at once.
	Concurrency int `mapstructure:"concurrency"`

	// Window is when hosts may be visited, such as
	// "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo".
	Window string `mapstructure:"window"`

	// Cycle lies between the beginnings of two crawl cycles; 0 is one a day,
	// with the first opening of the window.
	Cycle time.Duration `mapstructure:"cycle"`

	// Once ends the daemon after one cycle, when its batches are published.
	Once bool `mapstructure:"once"`

	// LogAt is when the log of the collection is sent, on the window's clock.
	LogAt string `mapstructure:"log_at"`

	// Poll lies between two questions to the manager for a new list or a restart.
	Poll time.Duration `mapstructure:"poll"`

	Page   PageConfig   `mapstructure:"page"`
	Batch  BatchConfig  `mapstructure:"batch"`
	Upload UploadConfig `mapstructure:"upload"`

	// Network says how hosts are reached.
	Network NetworkConfig `mapstructure:"network"`
}

// PageConfig bounds what is taken of a host.
type PageConfig struct {
	MaxBytes    int64         `mapstructure:"max_bytes"`     // of one page; more is cut off
	Timeout     time.Duration `mapstructure:"timeout"`       // for one page
	MaxPerHost  int           `mapstructure:"max_per_host"`  // pages of one host in a cycle
	MaxDepth    int           `mapstructure:"max_depth"`     // links from the top page
	MaxPath     int           `mapstructure:"max_path"`      // bytes of path and query
	Tries       int           `mapstructure:"tries"`         // for a page that cannot be had
	Full        time.Duration `mapstructure:"full"`          // a page that never changes is still taken in full this often
	ObeyRelLink bool          `mapstructure:"obey_nofollow"` // leave links with rel=nofollow; the page's own meta robots is always obeyed
	Forms       bool          `mapstructure:"forms"`         // send forms (GET only) as they stand and take what they answer
}

// BatchConfig says when batches are made.
type BatchConfig struct {
	Size  int64 `mapstructure:"size"`  // bytes in open segments that make a batch before the day ends
	Level int   `mapstructure:"level"` // of compression, 1 to 9
}

// UploadConfig says how batches get to the service.
type UploadConfig struct {
	By      string        `mapstructure:"by"`       // "http" or "ftp"
	URL     string        `mapstructure:"url"`      // of the service that takes batches; empty: the manager's
	FTP     string        `mapstructure:"ftp"`      // host:port; empty: what the manager said at joining
	Poll    time.Duration `mapstructure:"poll"`     // between two looks for a receipt
	BackOff time.Duration `mapstructure:"back_off"` // after a failed upload, doubled with each
}

// NetworkConfig says how hosts are reached.
type NetworkConfig struct {
	// Hosts gives addresses, "ip" or "ip:port", to names, before DNS is asked.
	Hosts map[string]string `mapstructure:"hosts"`

	// AllowPrivate lets private, loopback and link-local addresses be visited.
	AllowPrivate bool `mapstructure:"allow_private"`

	// Proxy is the URL of an HTTP or SOCKS5 proxy for pages. Talk with the
	// service goes by HTTPS_PROXY and its like in the environment.
	Proxy string `mapstructure:"proxy"`
}

// Default returns the settings that hold where nothing else is said.
func Default() Config {
	return Config{
		DataDir:     "robotd-data",
		Interval:    20 * time.Second,
		Concurrency: 100,
		Window:      "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo",
		LogAt:       "09:00",
		Poll:        time.Hour,
		Page: PageConfig{
			MaxBytes: 64 << 20, Timeout: 10 * time.Minute,
			MaxPerHost: 100_000, MaxDepth: 100, MaxPath: 2048,
			Tries: 3, Full: 30 * 24 * time.Hour,
		},
		Batch:  BatchConfig{Size: 1 << 30, Level: 6},
		Upload: UploadConfig{By: "http", Poll: time.Minute, BackOff: 10 * time.Second},
	}
}

// delimiter joins the keys of nested settings. A dot cannot: it stands in the
// names of hosts.
const delimiter = "::"

// Load reads the settings from the file, which may be empty, and from the
// environment. Settings that are not known are refused.
func Load(file string) (Config, error) {
	cfg := Default()
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter), viper.EnvKeyReplacer(strings.NewReplacer(delimiter, "_")))
	v.SetEnvPrefix("ROBOTD")
	for _, key := range keys(reflect.TypeFor[Config](), "") {
		if err := v.BindEnv(key); err != nil {
			return cfg, err
		}
	}
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return cfg, fmt.Errorf("settings: %w", err)
		}
	}
	err := v.UnmarshalExact(&cfg, viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(
		parseDuration, parseHosts)))
	if err != nil {
		return cfg, fmt.Errorf("settings: %w", err)
	}
	return cfg, nil
}

// keys lists the settings' keys.
func keys(t reflect.Type, prefix string) []string {
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("mapstructure")
		if f.Type.Kind() == reflect.Struct {
			all = append(all, keys(f.Type, key+delimiter)...)
		} else {
			all = append(all, key)
		}
	}
	return all
}

// parseDuration reads a duration; its error shows the value, as the library's does not.
func parseDuration(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[time.Duration]() {
		return data, nil
	}
	d, err := time.ParseDuration(data.(string))
	if err != nil {
		return nil, fmt.Errorf("%q is not a duration such as 20s", data)
	}
	return d, nil
}

// parseHosts reads network.hosts from the environment: "name=ip:port name=ip".
func parseHosts(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[map[string]string]() {
		return data, nil
	}
	hosts := make(map[string]string)
	for pair := range strings.FieldsSeq(data.(string)) {
		name, addr, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=ip or name=ip:port", pair)
		}
		hosts[name] = addr
	}
	return hosts, nil
}

// plan checks the settings and returns what must be parsed of them. An error
// names the setting and its value.
func (c *Config) plan() (schedule.Plan, error) {
	var p schedule.Plan
	var err error
	if p.Window, err = window.Parse(c.Window); err != nil {
		return p, wrong("window", c.Window, err.Error())
	}
	if p.LogAt, err = schedule.ParseClock(c.LogAt); err != nil {
		return p, wrong("log_at", c.LogAt, err.Error())
	}
	p.Every = c.Cycle
	return p, c.check()
}

func (c *Config) check() error {
	if err := checkContact(c.Contact); err != nil {
		return wrong("contact", c.Contact, err.Error())
	}
	for _, s := range []struct {
		key   string
		value any
		bad   bool
		want  string
	}{
		{"data", c.DataDir, c.DataDir == "", "name a folder"},
		{"interval", c.Interval, c.Interval < 0, "a duration such as 20s"},
		{"concurrency", c.Concurrency, c.Concurrency < 1 || c.Concurrency > 100_000, "1 to 100000"},
		{"cycle", c.Cycle, c.Cycle < 0, "a duration, or 0 for one cycle a day"},
		{"poll", c.Poll, c.Poll < time.Second, "at least 1s"},
		{"page.max_bytes", c.Page.MaxBytes, c.Page.MaxBytes < 1, "a positive number of bytes"},
		{"page.timeout", c.Page.Timeout, c.Page.Timeout <= 0, "a duration such as 10m"},
		{"page.max_per_host", c.Page.MaxPerHost, c.Page.MaxPerHost < 1, "at least 1"},
		{"page.max_depth", c.Page.MaxDepth, c.Page.MaxDepth < 0, "0 or more"},
		{"page.max_path", c.Page.MaxPath, c.Page.MaxPath < 1, "at least 1"},
		{"page.tries", c.Page.Tries, c.Page.Tries < 1, "at least 1"},
		{"page.full", c.Page.Full, c.Page.Full < 0, "a duration such as 720h"},
		{"batch.size", c.Batch.Size, c.Batch.Size < 1, "a positive number of bytes"},
		{"batch.level", c.Batch.Level, c.Batch.Level < 1 || c.Batch.Level > 9, "1 to 9"},
		{"upload.by", c.Upload.By, c.Upload.By != "http" && c.Upload.By != "ftp", `"http" or "ftp"`},
		{"upload.poll", c.Upload.Poll, c.Upload.Poll <= 0, "a duration such as 1m"},
		{"upload.back_off", c.Upload.BackOff, c.Upload.BackOff <= 0, "a duration such as 10s"},
		{"manager", c.Manager, !optionalURL(c.Manager, "http", "https"), "an http or https URL"},
		{"upload.url", c.Upload.URL, !optionalURL(c.Upload.URL, "http", "https"), "an http or https URL"},
		{"network.proxy", c.Network.Proxy, !optionalURL(c.Network.Proxy, "http", "https", "socks5"), "an http, https or socks5 URL"},
	} {
		if s.bad {
			return wrong(s.key, s.value, "want "+s.want)
		}
	}
	for name, to := range c.Network.Hosts {
		if _, err := netip.ParseAddrPort(to); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(to); err != nil {
			return wrong("network.hosts."+name, to, "want an IP address, with or without a port")
		}
	}
	return nil
}

func wrong(key string, value any, why string) error {
	return fmt.Errorf("setting %s: %v: %s", key, value, why)
}

func optionalURL(s string, schemes ...string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return true
		}
	}
	return false
}

// checkContact refuses a contact that nobody can be reached at. Robots with
// placeholder contacts have been banned, and their owners never learned why.
func checkContact(contact string) error {
	if contact == "" {
		return errors.New("it is required: a URL or a mail address at which webmasters reach you")
	}
	domain := ""
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		domain = u.Hostname()
	} else if a, err := mail.ParseAddress(strings.TrimPrefix(contact, "mailto:")); err == nil {
		domain = a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	}
	domain = strings.ToLower(domain)
	switch {
	case strings.ContainsAny(contact, "\r\n()"):
		return errors.New("it holds a line end or parentheses")
	case !strings.Contains(domain, "."):
		return errors.New("it is neither a URL nor a mail address with a domain")
	}
	for _, placeholder := range []string{"example.com", "example.org", "example.net", "example.jp", "yourdomain.com", "your-domain.com"} {
		if domain == placeholder || strings.HasSuffix(domain, "."+placeholder) {
			return errors.New("it is a placeholder; give an address at which webmasters reach you")
		}
	}
	for _, ending := range []string{".example", ".invalid", ".localhost"} {
		if strings.HasSuffix(domain, ending) {
			return errors.New("it is a placeholder; give an address at which webmasters reach you")
		}
	}
	return nil
}

// userAgent names the robot in every request.
func (c *Config) userAgent() string {
	return fmt.Sprintf("sheaf-robotd/%s (+%s)", Version, c.Contact)
}

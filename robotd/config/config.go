// Package config has the settings of a robot: their defaults, how they are read and checked.
package config

import (
	"fmt"
	"path/filepath"
	"time"

	"sheaf/internal/limits"
	"sheaf/robotd/schedule"
)

// Config holds the settings. Each can stand in a YAML file under the name in its
// tag, or in the environment: upload.poll is ROBOTD_UPLOAD_POLL there.
type Config struct {
	// DataDir is the robot's folder; see the package comment for what is in it.
	DataDir string `mapstructure:"data"`

	// Manager is the URL of the service, or those of several of its processes, any of which
	// will do: where one does not answer, the next is asked. "robotd join" remembers
	// what it was given, so this need be set only where the service has moved or grown.
	Manager []string `mapstructure:"manager"`

	// Contact is where the people behind the robot can be reached: a URL or a
	// mail address. It stands in every request. Required.
	Contact string `mapstructure:"contact"`

	// Interval lies between two runs at one IP address.
	Interval time.Duration `mapstructure:"interval"`

	// Run bounds what one turn at an address may fetch.
	Run Run `mapstructure:"run"`

	// Adapt bounds the interval where it follows how a server bears the visits.
	Adapt Adapt `mapstructure:"adapt"`

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

	// Statistics lies between two lines in the log that say how busy the modules are; 0 is none.
	Statistics time.Duration `mapstructure:"statistics"`

	// Metrics is the loopback address, ip:port, at which Prometheus and health checks find
	// /metrics and /healthz; empty: none.
	Metrics string `mapstructure:"metrics"`

	// Heartbeat lies between two words to the manager of how far the robot is, which
	// it answers with what has changed; 0: none.
	Heartbeat time.Duration `mapstructure:"heartbeat"`

	// Express lies at least between two batches that are made at once because a page
	// that a consumer watches has changed; 0: such changes come with the other pages.
	Express time.Duration `mapstructure:"express"`

	// Watch bounds how often pages that consumers watch are visited.
	Watch Watch `mapstructure:"watch"`

	// Limits bound what the robot uses of its site's line.
	Limits Limits `mapstructure:"limits"`

	// Memory bounds what the robot takes of its machine's memory.
	Memory Memory `mapstructure:"memory"`

	// Disk bounds what the robot takes of its disk.
	Disk Disk `mapstructure:"disk"`

	// NotBetween gives, by host, when it is not to be visited: a schedule as
	// for Window.
	NotBetween map[string]string `mapstructure:"not_between"`

	// Revisit says which known pages are visited, and when.
	Revisit Revisit `mapstructure:"revisit"`

	// Links says whether the archive gets the links of each page.
	Links Links `mapstructure:"links"`

	// TLS says what becomes of pages whose server's certificate does not verify.
	TLS TLS `mapstructure:"tls"`

	Page   Page   `mapstructure:"page"`
	Batch  Batch  `mapstructure:"batch"`
	Upload Upload `mapstructure:"upload"`
	Tap    Tap    `mapstructure:"tap"`

	// Network says how hosts are reached.
	Network Network `mapstructure:"network"`

	// Update says how the robot's program is replaced by newer releases.
	Update Update `mapstructure:"update"`
}

// Run bounds a run: the pages that one turn at an address may fetch, over one
// connection (Keep-Alive). Runs end where the server ends the connection.
type Run struct {
	Pages int           `mapstructure:"pages"` // 1: the interval lies between any two pages
	Time  time.Duration `mapstructure:"time"`  // after which no further page of a run is asked for
}

// Adapt bounds the interval that an address is given by how it answers.
type Adapt struct {
	Min time.Duration `mapstructure:"min"` // where answers stay as quick as ever; 0: Interval
	Max time.Duration `mapstructure:"max"` // where they slow down or fail; 0: Interval
}

// Watch bounds how often pages that consumers watch are visited. Within it a page comes as often as
// its changes ask for, once a cycle at least.
type Watch struct {
	Every time.Duration `mapstructure:"every"` // at least between two visits to a page; 0: once a cycle, no oftener
	Share float64       `mapstructure:"share"` // of a host's time that such visits may take
}

// Limits bounds what the robot uses of its site's line; 0 is no limit.
type Limits struct {
	Bandwidth int64 `mapstructure:"bandwidth"` // bytes per second of pages coming in
	Daily     int64 `mapstructure:"daily"`     // bytes of pages a day, on the window's clock
	Monthly   int64 `mapstructure:"monthly"`   // bytes of pages a month
}

// Memory bounds what the robot takes of its machine's memory.
type Memory struct {
	Garbage int64 `mapstructure:"garbage"` // bytes no longer used that gather before they are collected; 0: as Go has it
	Limit   int64 `mapstructure:"limit"`   // bytes of the whole, beyond which they are collected as they come; 0: none
}

// Disk bounds what the robot takes of its disk: at either bound nothing more is
// collected until batches are published and leave it. 0 is no bound.
type Disk struct {
	Free  int64 `mapstructure:"free"`  // bytes that stay free, after the next batch is made
	Spool int64 `mapstructure:"spool"` // bytes that wait to be published
}

// Revisit says which of the pages that are known are visited in a cycle, where the window has
// no room for all of them, and when a host's visit begins.
type Revisit struct {
	By         string        `mapstructure:"by"`          // a schedule.Rule; "all": every page, however many nights a cycle takes
	AtLeast    time.Duration `mapstructure:"at_least"`    // every page is visited this often, as far as there is room
	QuickHours bool          `mapstructure:"quick_hours"` // begin when the host's server was quickest
}

// Page bounds what is taken of a host.
type Page struct {
	MaxBytes    int64         `mapstructure:"max_bytes"`     // of one page; more is cut off
	Timeout     time.Duration `mapstructure:"timeout"`       // for one page
	Stall       time.Duration `mapstructure:"stall"`         // without a byte, after which a page is given up for later
	MaxPerHost  int           `mapstructure:"max_per_host"`  // pages of one host in a cycle
	MaxDepth    int           `mapstructure:"max_depth"`     // links from the top page
	MaxPath     int           `mapstructure:"max_path"`      // bytes of path and query
	Tries       int           `mapstructure:"tries"`         // for a page that cannot be had
	Full        time.Duration `mapstructure:"full"`          // a page that never changes is still taken in full this often
	Rules       time.Duration `mapstructure:"rules"`         // a robots.txt is believed this long, 24h at most
	ObeyRelLink bool          `mapstructure:"obey_nofollow"` // leave links with rel=nofollow; the page's own meta robots is always obeyed
	Probe       bool          `mapstructure:"probe"`         // ask each host once a cycle for a page that is not there, to know its error page
	Forms       bool          `mapstructure:"forms"`         // send forms (GET only) as they stand and take what they answer
}

// Links says what is recorded of where pages lead. What is followed does not depend on it.
type Links struct {
	Record bool `mapstructure:"record"`
	Max    int  `mapstructure:"max"` // of one page; further ones are left out
}

// TLS is about servers of pages alone: manager, uploads and updates always verify.
type TLS struct {
	Verify string `mapstructure:"verify"` // TLSRecord or TLSRefuse
}

// Values of tls.verify.
const (
	TLSRecord = "record" // such pages are collected, and marked: X-Crawler-Certificate in the stored header
	TLSRefuse = "refuse" // they are not
)

// Batch says when batches are made.
type Batch struct {
	Size  int64 `mapstructure:"size"`  // bytes in open segments that make a batch before the day ends
	Level int   `mapstructure:"level"` // of compression, 1 to 9
}

// Tap lets programs on this machine read records as they are stored; see package tap.
type Tap struct {
	Socket string        `mapstructure:"socket"` // path of a Unix socket; empty: tap.sock in the data folder; none: no tap
	Buffer int64         `mapstructure:"buffer"` // bytes queued for each consumer
	Wait   time.Duration `mapstructure:"wait"`   // for a consumer whose queue is full, before a record is dropped for it
}

// Upload says how batches get to the service.
type Upload struct {
	By  string `mapstructure:"by"`  // "http" or "ftp"
	URL string `mapstructure:"url"` // of the service that takes batches; empty: the manager's
	FTP string `mapstructure:"ftp"` // host:port; empty: what the manager said at joining
	// Targets are ways to the service as URLs, in the order of preference, in place of By, URL
	// and FTP: http:// and https://, ftp://, and ftps:// for FTP with AUTH TLS.
	Targets []string `mapstructure:"targets"`
	// Proxy is the URL of an HTTP (CONNECT) or SOCKS5 proxy to the targets, with its name and password
	// where it wants them; direct: none; empty: as HTTPS_PROXY, FTP_PROXY, ALL_PROXY and NO_PROXY say.
	Proxy   string        `mapstructure:"proxy"`
	Poll    time.Duration `mapstructure:"poll"`     // between two looks for a receipt
	BackOff time.Duration `mapstructure:"back_off"` // after a failed upload, doubled with each
}

// Network says how hosts are reached.
type Network struct {
	// Hosts gives addresses, "ip" or "ip:port", to names, before DNS is asked.
	Hosts map[string]string `mapstructure:"hosts"`

	// Resolver is the name server to ask, "ip:port"; empty: the system's.
	Resolver string `mapstructure:"resolver"`

	// Relearn lies between two questions for a host's address.
	Relearn time.Duration `mapstructure:"relearn"`

	// Ranges are ranges of addresses, each of which counts as one address, such
	// as "192.0.2.0/28".
	Ranges []string `mapstructure:"ranges"`

	// AllowPrivate lets private, loopback and link-local addresses be visited.
	AllowPrivate bool `mapstructure:"allow_private"`

	// Proxy is the URL of an HTTP or SOCKS5 proxy for pages. Talk with the
	// service goes by HTTPS_PROXY and its like in the environment.
	Proxy string `mapstructure:"proxy"`
}

// Update says how the program is replaced. It happens under robotd supervise only.
type Update struct {
	Enabled bool `mapstructure:"enabled"`
	// Key is the minisign key that releases must be signed with; empty: the one that
	// the service named at joining.
	Key   string        `mapstructure:"key"`
	Trial time.Duration `mapstructure:"trial"` // within which a new program must report to the manager, or it is put back
}

// Default returns the settings that hold where nothing else is said.
func Default() Config {
	return Config{
		DataDir:     "robotd-data",
		Interval:    20 * time.Second,
		Run:         Run{Pages: 1, Time: time.Minute},
		Adapt:       Adapt{Max: 2 * time.Minute},
		Concurrency: 100,
		Window:      "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo",
		LogAt:       "09:00",
		Poll:        time.Hour,
		Statistics:  10 * time.Minute,
		Heartbeat:   5 * time.Minute,
		Express:     5 * time.Minute,
		Watch:       Watch{Every: 10 * time.Minute, Share: 0.5},
		Memory:      Memory{Garbage: 8 << 20, Limit: 512 << 20},
		Disk:        Disk{Free: 512 << 20, Spool: 50 << 30},
		Revisit:     Revisit{By: string(schedule.Optimal), AtLeast: 30 * 24 * time.Hour, QuickHours: true},
		Page: Page{
			MaxBytes: limits.PageBytes, Timeout: 10 * time.Minute, Stall: time.Minute,
			MaxPerHost: 100_000, MaxDepth: 100, MaxPath: 2048,
			Tries: 3, Full: 30 * 24 * time.Hour, Rules: MaxRules, Probe: true,
		},
		TLS:    TLS{Verify: TLSRecord},
		Links:  Links{Record: true, Max: 1000},
		Batch:  Batch{Size: 1 << 30, Level: 6},
		Tap:    Tap{Buffer: 16 << 20},
		Upload: Upload{By: "http", Poll: time.Minute, BackOff: 10 * time.Second},

		Network: Network{Relearn: time.Hour},
		Update:  Update{Enabled: true, Trial: 10 * time.Minute},
	}
}

// UserAgent returns the User-Agent of a program of the given version.
func (c *Config) UserAgent(version string) string {
	return fmt.Sprintf("sheaf-robotd/%s (+%s)", version, c.Contact)
}

// NoTap is the value of tap.socket for a robot without a tap.
const NoTap = "none"

// TapSocket returns the path of the socket to which consumers connect; empty: there is none.
func (c *Config) TapSocket() string {
	switch c.Tap.Socket {
	case "":
		return filepath.Join(c.DataDir, "tap.sock")
	case NoTap:
		return ""
	}
	return c.Tap.Socket
}

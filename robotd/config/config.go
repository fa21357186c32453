// Package config has the settings of a robot, the small files and sockets of its data folder, and
// connections through proxies.
//
// The settings have defaults (deploy/robotd.yaml), and are checked when they are read. Plan says
// when a robot may crawl, when its next cycle begins, and when it sends the collection log, in the
// zone of the window. Plan only computes times; the daemon does the waiting.
package config

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"sheaf/internal/settings"
	"sheaf/internal/window"
	"sheaf/internal/wire"
)

// Config has the settings. Each can be set in a YAML file under the name in its tag, or in the
// environment: there, upload.poll is ROBOTD_UPLOAD_POLL. deploy/robotd.yaml says what each does,
// and has its default. Fields without a key are constants that only tests change.
type Config struct {
	// DataDir is the robot's folder. The comment of package robotd lists its files.
	DataDir string `mapstructure:"data"`

	// Manager has the URLs of the service: several processes of it may be named, and if one does
	// not answer, the next is asked. "robotd join" remembers its URLs, so this is only needed if
	// the service has moved or grown.
	Manager []string `mapstructure:"manager"`

	// Contact is a URL or mail address of the people behind the robot. It is in every request.
	// Required.
	Contact string `mapstructure:"contact"`

	// Identity says how sites can recognise the robot.
	Identity Identity `mapstructure:"identity"`

	Visits `mapstructure:",squash"`
	Cycles `mapstructure:",squash"`
	Report `mapstructure:",squash"`

	// Modules says how many workers extract and store pages, and how many pages may wait for them.
	// Concurrency says how many fetch.
	Modules Modules `mapstructure:"-"`

	// Memory bounds the memory of the process.
	Memory Memory `mapstructure:"memory"`

	// Disk bounds the use of the disk.
	Disk Disk `mapstructure:"disk"`

	// Revisit says which known pages are visited, and when.
	Revisit Revisit `mapstructure:"revisit"`

	// Links says whether the archive gets the links of each page.
	Links Links `mapstructure:"links"`

	// TLS says what to do with pages of servers whose certificate does not verify.
	TLS TLS `mapstructure:"tls"`

	Page   Page   `mapstructure:"page"`
	Batch  Batch  `mapstructure:"batch"`
	Upload Upload `mapstructure:"upload"`
	Tap    Tap    `mapstructure:"tap"`

	// Network says how hosts are reached.
	Network Network `mapstructure:"network"`

	// Update says how the robot's program is replaced by newer releases.
	Update Update `mapstructure:"update"`

	// Hands says whether other machines of the site fetch for the robot.
	Hands Hands `mapstructure:"hands"`
}

// Visits says how often and how much hosts are visited.
type Visits struct {
	// Interval is the time between two runs at one IP address.
	Interval time.Duration `mapstructure:"interval" want:"at least 0s"`

	// Run bounds what a robot fetches in one turn at an address.
	Run Run `mapstructure:"run"`

	// Adapt bounds the interval as it adapts to how fast a server answers.
	Adapt Adapt `mapstructure:"adapt"`

	// Concurrency is how many hosts are visited at once.
	Concurrency int `mapstructure:"concurrency" want:"1 to 100000"`

	// Express is the least time between two express batches, which are made at once when a watched
	// page has changed; 0: changes come with the other pages.
	Express time.Duration `mapstructure:"express" want:"at least 0s"`

	// Watch bounds how often pages that consumers watch are visited.
	Watch Watch `mapstructure:"watch"`

	// Limits bound the traffic of the robot.
	Limits Limits `mapstructure:"limits"`

	// NotBetween has, by host, the hours when the host is not to be visited, in the format of
	// Window.
	NotBetween map[string]string `mapstructure:"not_between"`
}

// Cycles says when a robot collects.
type Cycles struct {
	// Window is when hosts may be visited, such as "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00
	// Asia/Tokyo".
	Window string `mapstructure:"window"`

	// Cycle is the time between the beginnings of two cycles; 0: one cycle a day, which begins when
	// the window first opens.
	Cycle time.Duration `mapstructure:"cycle" want:"at least 0s"`

	// Once ends the daemon after one cycle, when its batches are published.
	Once bool `mapstructure:"once"`

	// For is the time after which the cycle of Once ends; pages that are left wait for the next
	// start. 0: it ends when nothing is left.
	For time.Duration `mapstructure:"for"`

	// LogAt is the time of day, in the window's time zone, at which the log of the collection is
	// sent.
	LogAt string `mapstructure:"log_at"`
}

// Report says how a robot speaks with the manager and with its operator.
type Report struct {
	// Poll is the time between two questions to the manager for a new list or a restart.
	Poll time.Duration `mapstructure:"poll" want:"at least 1s"`

	// Heartbeat is the time between two heartbeats, which tell the manager how far the robot is and
	// bring back its orders; 0: no heartbeats.
	Heartbeat time.Duration `mapstructure:"heartbeat" want:"at least 0s"`

	// Statistics is the time between two lines in the log on how busy the stages are; 0: no such
	// lines.
	Statistics time.Duration `mapstructure:"statistics" want:"at least 0s"`

	// Log is how the log is written.
	Log Log `mapstructure:"log"`

	// Metrics is the loopback address, ip:port, for /metrics (Prometheus) and /healthz; empty:
	// none.
	Metrics string `mapstructure:"metrics"`
}

// Run bounds a run: the pages that are fetched in one turn at an address, over one connection
// (Keep-Alive). A run ends when the server closes the connection.
type Run struct {
	Pages int `mapstructure:"pages" want:"at least 1"` // 1: there is an interval between any two pages
}

// Adapt bounds the interval of an address as it adapts to how fast the server answers.
type Adapt struct {
	Min time.Duration `mapstructure:"min" want:"at least 0s"` // for addresses whose answers stay fast; 0: Interval
	Max time.Duration `mapstructure:"max" want:"at least 0s"` // for addresses whose answers slow down or fail; 0: Interval
}

// Watch bounds how often watched pages are visited. Within these bounds a page is visited as often
// as it changes, and at least once a cycle.
type Watch struct {
	Every time.Duration `mapstructure:"every" want:"at least 0s"` // least time between two visits to a page; 0: pages are visited once a cycle
}

// Limits bounds the traffic of the robot; 0: no limit.
type Limits struct {
	Bandwidth int64 `mapstructure:"bandwidth" want:"at least 0"` // bytes per second received from web servers
	Daily     int64 `mapstructure:"daily" want:"at least 0"`     // bytes of pages a day, in the window's time zone
	Monthly   int64 `mapstructure:"monthly" want:"at least 0"`   // bytes of pages a month
}

// Modules are the stages behind the fetches, joined by queues.
type Modules struct {
	Extract Module // find links, and judge pages
	Store   Module // compress and write records
}

// Module sets the workers and the queue of one stage. A full queue holds up the stage before it.
type Module struct {
	Workers int // 0: one for each core
	Queue   int // pages that may wait; 0: four for each worker
}

// Memory bounds the memory of the process.
type Memory struct {
	Limit int64 `mapstructure:"limit" want:"at least 0"` // bytes of the whole process, beyond which garbage is collected at once; 0: none
}

// Disk bounds the use of the disk. At either bound nothing more is collected until batches are
// published and leave the disk. 0: no bound.
type Disk struct {
	Free  int64 `mapstructure:"free" want:"at least 0"`  // bytes that stay free, also after the next batch is made
	Spool int64 `mapstructure:"spool" want:"at least 0"` // bytes of batches that are not published yet
}

// Revisit says which known pages are visited in a cycle if the window has no time for all of them,
// and when the visit of a host begins.
type Revisit struct {
	By         string        `mapstructure:"by" want:"optimal, sqrt, paper or all"` // a Rule; "all": every page, even if a cycle takes many nights
	AtLeast    time.Duration `mapstructure:"at_least" want:"24h to 1440h"`          // longest time between two visits to a page, if there is enough time
	QuickHours bool          `mapstructure:"-"`                                     // begin in the hours in which the host's server was fastest
}

// Page says which pages are taken of a host, and how much of each.
type Page struct {
	MaxBytes    int64         `mapstructure:"max_bytes" want:"above 0"`       // of one page; the rest is cut off
	Timeout     time.Duration `mapstructure:"timeout" want:"above 0s"`        // for one page
	Stall       time.Duration `mapstructure:"stall" want:"above 0s"`          // time without a byte after which a fetch is ended and tried later
	MaxPerHost  int           `mapstructure:"max_per_host" want:"at least 1"` // pages of one host in a cycle
	MaxDepth    int           `mapstructure:"max_depth" want:"at least 0"`    // links from a seed
	Tries       int           `mapstructure:"tries" want:"at least 1"`        // tries for a page that cannot be fetched
	Rules       time.Duration `mapstructure:"rules" want:"1m to 24h"`         // time for which a robots.txt holds (RFC 9309, 2.4); if that is shorter than a day, each night stores the file
	Full        time.Duration `mapstructure:"full" want:"at least 0s"`        // longest time between two full copies of a page that does not change
	ObeyRelLink bool          `mapstructure:"obey_nofollow"`                  // do not follow links with rel=nofollow; the page's own meta robots is always obeyed
	Probe       bool          `mapstructure:"probe"`                          // request a page that cannot exist from each host once a cycle, to know its error page
	Forms       bool          `mapstructure:"forms"`                          // send GET forms with their default values, and take the answers
}

// Links says whether the links of pages are recorded. It does not affect which links are followed.
type Links struct {
	Record bool `mapstructure:"record"`
}

// TLS is about web servers only. Connections to manager, upload targets and updates always verify.
type TLS struct {
	Verify string `mapstructure:"verify" want:"record or refuse"` // TLSRecord or TLSRefuse
}

// Values of tls.verify, for pages of servers whose certificate does not verify.
const (
	TLSRecord = "record" // the pages are collected, and marked with X-Crawler-Certificate in the stored header
	TLSRefuse = "refuse" // the pages are not collected
)

// Batch says when batches are made.
type Batch struct {
	Size  int64 `mapstructure:"size" want:"above 0"` // bytes in open segments at which a batch is made before the cycle ends
	Level int   `mapstructure:"-"`                   // of compression, 1 to 9
}

// Tap lets programs on this machine read records as they are stored; see package control.
type Tap struct {
	Socket string        `mapstructure:"socket"`               // path of a Unix socket; empty: tap.sock in the data folder; "none": no tap
	Wait   time.Duration `mapstructure:"wait" want:"0s to 1m"` // time that a record waits for room in a consumer's queue before it is dropped
}

// Upload says how batches get to the service.
type Upload struct {
	// Targets are the ways to the service as URLs, in the order of preference: http://, https://,
	// ftp://, and ftps:// for FTP with AUTH TLS. HTTP stands for the manager's URLs, FTP for the
	// address that the manager named when the robot joined. Empty: HTTP.
	Targets []string `mapstructure:"targets"`
	// Proxy is the URL of an HTTP (CONNECT) or SOCKS5 proxy to the targets, with its name and
	// password if it needs them; "direct": no proxy; empty: as in HTTPS_PROXY, FTP_PROXY, ALL_PROXY
	// and NO_PROXY.
	Proxy string        `mapstructure:"proxy"`
	Poll  time.Duration `mapstructure:"poll" want:"above 0s"` // time between two requests for a receipt
}

// Network says how hosts are reached.
type Network struct {
	// Hosts has addresses of names: "ip" or "ip:port", or several with blanks between. It has
	// priority over DNS.
	Hosts map[string]string `mapstructure:"hosts"`

	// Resolver is the name server, "ip:port"; empty: the system's.
	Resolver string `mapstructure:"resolver"`

	// Relearn is the time between two look-ups of a host.
	Relearn time.Duration `mapstructure:"-"`

	// Ranges are ranges of addresses that each count as one address, such as "192.0.2.0/28".
	Ranges []string `mapstructure:"ranges"`

	// AllowPrivate allows visits to private, loopback and link-local addresses.
	AllowPrivate bool `mapstructure:"allow_private"`

	// Proxy is the URL of an HTTP or SOCKS5 proxy for pages. Requests to the service use
	// HTTPS_PROXY and its like in the environment.
	Proxy string `mapstructure:"proxy" want:"http, https or socks5 URL, or nothing"`
}

// Update says how the program is replaced. That only happens under robotd supervise.
type Update struct {
	Enabled bool `mapstructure:"enabled"`
	// Key is the minisign public key of releases; empty: the one that the service named when the
	// robot joined.
	Key   string        `mapstructure:"key"`
	Trial time.Duration `mapstructure:"trial" want:"at least 1s"` // time in which a new program must report to the manager; otherwise the old one is put back
}

// Hands are other machines of the site that fetch for the robot; see package fetch.
type Hands struct {
	Listen string `mapstructure:"listen" want:"host:port, or nothing"` // host:port at which hands connect; empty: there are none
	Self   bool   `mapstructure:"self"`                                // the robot itself fetches too while hands are connected

	Lease time.Duration `mapstructure:"-"` // of a hand; 0: fetch.LeaseTime
}

// Log is how the log is written.
type Log struct {
	Format string `mapstructure:"format" want:"text or json"`
	Level  string `mapstructure:"level" want:"debug, info, warn or error"` // the least important lines that are written
}

// Identity has the settings by which sites can recognise the robot.
type Identity struct {
	Sign string `mapstructure:"sign"` // the service's public address, under which requests are signed (see botauth); "": they are not
}

// Short names of targets.
const (
	HTTP = "http" // the manager's URLs
	FTP  = "ftp"  // the address that the manager named when the robot joined
)

// NoTap is the value of tap.socket for a robot without a tap.
const NoTap = "none"

// TapSocket returns the path of the socket to which consumers connect; empty: the robot has no tap.
func (c *Config) TapSocket() string {
	switch c.Tap.Socket {
	case "":
		return filepath.Join(c.DataDir, "tap.sock")
	case NoTap:
		return ""
	}
	return c.Tap.Socket
}

// Plan checks the settings and returns the parsed form of those about time. The error names every
// setting that cannot be used.
func (c *Config) Plan() (p Plan, err error) {
	var is settings.Checks
	parsed := func(key, text string, err error) { is.Require(err == nil, key, text, fmt.Sprint(err)) }
	p.Every = c.Cycle
	p.Window, err = window.Parse(c.Window)
	parsed("window", c.Window, err)
	p.LogAt, err = ParseClock(c.LogAt)
	parsed("log_at", c.LogAt, err)
	parsed("contact", c.Contact, wire.CheckContact(c.Contact))
	_, err = Ranges(c.Network.Ranges)
	parsed("network.ranges", fmt.Sprint(c.Network.Ranges), err)
	for _, host := range slices.Sorted(maps.Keys(c.NotBetween)) {
		_, err := window.Parse(c.NotBetween[host])
		parsed("not_between."+host, c.NotBetween[host], err)
	}
	is.Fields(c)
	is.Require(c.For == 0 || c.For > 0 && c.Once, "for", c.For, "want a duration such as 2h, together with once")
	is.Require(c.Page.MaxBytes <= wire.MaxBody, "page.max_bytes", c.Page.MaxBytes, fmt.Sprintf("want at most %d: the service takes no longer page", int64(wire.MaxBody)))
	c.checkAddresses(&is)
	return p, is.Err()
}

// Check returns an error that names every setting that cannot be used, or nil.
func (c *Config) Check() error {
	_, err := c.Plan()
	return err
}

func (c *Config) checkAddresses(is *settings.Checks) {
	is.Require(c.DataDir != "", "data", c.DataDir, "want a folder")
	metrics, err := netip.ParseAddrPort(c.Metrics)
	is.Require(c.Metrics == "" || err == nil && metrics.Addr().IsLoopback(), "metrics", c.Metrics, "want a loopback address with a port, such as 127.0.0.1:9464")
	for _, u := range c.Manager {
		is.Require(settings.IsURL(u, "http", "https"), "manager", u, "want http or https URLs")
	}
	for _, u := range c.Upload.Targets {
		is.Require(u == HTTP || u == FTP || settings.IsURL(u, "http", "https", "ftp", "ftps"), "upload.targets", u, "want http, ftp, or http, https, ftp or ftps URLs")
	}
	_, err = netip.ParseAddrPort(c.Network.Resolver)
	is.Require(err == nil || c.Network.Resolver == "", "network.resolver", c.Network.Resolver, "want an IP address with a port")
	for _, name := range slices.Sorted(maps.Keys(c.Network.Hosts)) {
		to := c.Network.Hosts[name]
		_, err := ParseAddresses(to)
		is.Require(err == nil, "network.hosts."+name, to, "want an IP address, with or without a port, or several with blanks between")
	}
}

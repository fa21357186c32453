package ingest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/ingest/split"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/settings"
	"sheaf/internal/window"
)

// Settings are the settings of a Room. deploy/sheaf.yaml explains each of them.
type Settings struct {
	Uploads struct {
		Full     int    `mapstructure:"full" want:"20 to 100"`              // fill level of a disk in per cent above which uploads are refused
		Accepted string `mapstructure:"accepted" want:"directory or store"` // where accepted batches lie: in the data directory, which all processes that ingest share, or in the object store
	} `mapstructure:"uploads"`
	Import  foreign.Limits `mapstructure:"import"`
	Publish struct {
		Window string `mapstructure:"window"` // see package window
	} `mapstructure:"publish"`
	Packs   split.Packs `mapstructure:"packs"`
	Collect struct {
		Keep time.Duration `mapstructure:"keep"` // how long editions are kept; 0: for ever
	} `mapstructure:"collect"`
}

// leastKept is the minimum of collect.keep, unless that is 0. So consumers that come once a day
// miss no edition.
const leastKept = 48 * time.Hour

// Window returns the window of publications. If the setting names no zone, zone holds.
func (s *Settings) Window(zone string) (*window.Schedule, error) {
	text := strings.TrimSpace(s.Publish.Window)
	if n := len(text); n > 0 && text[n-1] >= '0' && text[n-1] <= '9' { // it ends with a time, not with a zone or a word
		text += " " + zone
	}
	return window.Parse(text)
}

// Check checks what the tags of the settings do not say. zone is the service's time zone.
func (s *Settings) Check(is *settings.Checks, zone string) {
	_, err := s.Window(zone)
	is.Require(err == nil, "publish.window", s.Publish.Window, fmt.Sprint(err))
	is.Require(s.Collect.Keep == 0 || s.Collect.Keep >= leastKept, "collect.keep", s.Collect.Keep, "want 0 or at least "+leastKept.String())
}

// Limits and intervals that are not settings.
const (
	collectEvery = 6 * time.Hour // between two collections
	slowUpload   = 10            // bytes a second, averaged over five minutes; a slower upload is ended and continues later
	goOnBelow    = 10            // points in per cent below uploads.full at which uploads are accepted again; the bounds of uploads.full leave room for it
)

// RoomOptions are the options of a Room. Open sets those fields of Options and Receive that follow
// from the settings or from each other.
type RoomOptions struct {
	Options
	Receive    receive.Options
	Settings   *Settings
	Hosts      string                                                                                        // file of a foreign.HostMap; empty: none
	LocalStore string                                                                                        // the store's directory; empty: it is elsewhere
	Expendable func(ctx context.Context, lines []catalog.SegmentEntry, n int) (expendable []bool, err error) // see upkeep.CollectorOptions
}

// Room takes uploads, publishes them, and looks after what is published.
type Room struct {
	*Ingest
	Receiver  *receive.Receiver
	Takedowns *upkeep.Takedowns
	Disks     []inbox.Disk // that batches pass through

	collector *upkeep.Collector
	indexer   *upkeep.Indexer
}

// Open makes a Room. Like New, it finishes what a crash has interrupted.
func Open(ctx context.Context, opt RoomOptions) (r *Room, err error) {
	s, in := opt.Settings, &opt.Receive
	opt.ForeignLimits, opt.Packs, opt.InStore = s.Import, s.Packs, s.Uploads.Accepted == "store"
	if opt.Hosts != "" {
		if opt.ForeignHosts, err = foreign.ReadHostMap(opt.Hosts); err != nil {
			return nil, fmt.Errorf("settings: drop.hosts: %w", err)
		}
	}
	r = new(Room)
	if r.Ingest, err = New(ctx, opt.Options); err != nil {
		return nil, err
	}
	if r.Disks, err = inbox.Disks(opt.Dir, opt.LocalStore); err != nil {
		return nil, err
	}
	in.Dir, in.Batches, in.Disks, in.Stopping, in.Log, in.Least = opt.Dir, r.Acceptor, r.Disks, opt.Stopping, opt.Log, slowUpload
	in.Marks = inbox.Marks{Full: float64(s.Uploads.Full) / 100, Drained: float64(s.Uploads.Full-goOnBelow) / 100}
	if r.Receiver, err = receive.New(ctx, *in); err != nil {
		return nil, err
	}
	r.collector = upkeep.NewCollector(upkeep.CollectorOptions{
		Catalog: opt.Catalog, Store: opt.Store, Claims: r.Publisher.Claims, Expendable: opt.Expendable, Leases: opt.Leases, Log: opt.Log,
		Merge: opt.Limits.Poll, Every: collectEvery, Delay: catalog.MinDelay, Keep: s.Collect.Keep,
	})
	r.indexer = upkeep.NewIndexer(opt.Catalog, opt.Store, opt.Limits.Poll, opt.Leases, opt.Log)
	r.Takedowns = upkeep.NewTakedowns(opt.Catalog, r.Publisher.Recall, opt.Log)
	return r, nil
}

// Register mounts the robots' operations and, behind the gate, the operators' operations.
func (r *Room) Register(router *mux.Router, gate operators.Gate) error {
	r.Ingest.Register(router, gate)
	r.collector.Register(router, gate)
	r.indexer.Register(router, gate)
	r.Takedowns.Register(router, gate)
	return r.Receiver.Register(router)
}

// Run does the room's work until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	return loop.Together(ctx, r.Ingest.Run, r.collector.Run, r.indexer.Run, r.Receiver.Run)
}

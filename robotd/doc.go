// Package robotd is the robot: it collects the pages of the hosts that a manager assigns to it, and
// uploads them as signed batches. This package puts the parts together, runs the cycles, and
// follows the manager: its list, heartbeats and orders. The parts are, each over those below it:
//
//	control     local socket: status, pause, metrics; tap: records as they are stored
//	crawl       the hosts of a cycle: gate → fetch → extract → store
//	revisit     which known, watched and ordered pages are visited, and at which hours
//	fetch       a page, over one connection or by another machine of the site
//	polite      may this address, this host, or anything be visited now?
//	client      requests to the manager; the list of hosts; identity, log
//	batch       from open segments to the receipt of the service
//	frontier    the URLs of each host, seen and to visit
//	page        links and text of a page; answers that are no pages; endless URLs
//	config      settings, and the small files of the data folder
//
//	manager ─ list ─▶ frontier ─▶ gate ─▶ fetch ─▶ extract ─▶ store ─▶ batch ─▶ upload
//	                     ▲         (polite)            │
//	                     └────────── links ────────────┘
//
// The data folder:
//
//	robot.json, robot.key  credentials, and the key with which the robot signs (client)
//	robot.lock             held while a daemon runs (config)
//	list.json              the last list of hosts from the manager (client)
//	lease.json             how long hosts may be visited without word from the manager (polite)
//	cycle.json             number and times of the last cycle (robotd)
//	frontier/              package frontier
//	restraints, robots/, servers  package polite
//	open/ sealing/ spool/  package batch
//	receipts/              signed receipts of published batches
//	log/, discovered/      what the manager is still to be told (client)
//	coverage.tsv           package batch
//	usage.json             bytes used in the day and the month (polite)
//	paused.json, held.json the pauses of the robot's site and of the manager (polite)
//	watches.json, express.json, ordered.json  watched pages, and ordered visits (revisit)
//	robotd.sock            where the daemon answers robotd's commands (control)
//	status.json            the last known status (control)
//	tap.sock               package control
//	update/                package update
package robotd

// Version is the program's version, for manifests and the User-Agent. A release's build sets it: go
// build -ldflags '-X sheaf/robotd.Version=0.2.0'.
var Version = "0.1.0"

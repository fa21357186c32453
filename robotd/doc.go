// Package robotd is the robot: it collects the pages of the hosts that a manager assigns to it, and
// uploads them as signed batches. This package puts the parts together. The parts are, each over
// those below it:
//
//	control     local socket: status, pause, metrics
//	cycle       the course of cycles: chores, batches
//	managed     the manager's list, heartbeats and orders
//	crawl       the hosts of a cycle: entering, mending, status
//	pipeline    gate → fetch → extract → store
//	watched     pages that consumers watch, visits that an operator orders
//	revisit     which known pages are visited, and at which hours
//	admission   when hosts may be visited at all
//
// and below them frontier (URLs of each host), polite (intervals, robots.txt), fetch, extract,
// batch, upload and smaller ones.
//
//	manager ─ list ─▶ frontier ─▶ gate ─▶ fetch ─▶ extract ─▶ store ─▶ batch ─▶ upload
//	                     ▲         (polite)            │
//	                     └────────── links ────────────┘
//
// The data folder:
//
//	robot.json, robot.key  credentials, and the key with which the robot signs (identity)
//	robot.lock             held while a daemon runs (datadir)
//	list.json              the last list of hosts from the manager (assignment)
//	lease.json             for how long they may be visited without hearing from it (assignment)
//	cycle.json             number and times of the last cycle (cycle)
//	frontier/              package frontier
//	restraints, robots/, servers  package hoststate
//	open/ sealing/ spool/  package batch
//	receipts/              signed receipts of published batches
//	log/, discovered/      what the manager is still to be told (reports)
//	coverage.tsv           package coverage
//	usage.json             bytes used in the day and the month (admission)
//	paused.json, held.json the pauses of the robot's site and of the manager (admission)
//	watches.json, express.json, ordered.json  watched pages, and ordered visits (watched)
//	robotd.sock            where the daemon answers robotd's commands (control)
//	status.json            the last known status (control)
//	tap.sock               package tap
//	update/                package update
package robotd

// Version is the program's version, for manifests and the User-Agent. A release's build sets it: go
// build -ldflags '-X sheaf/robotd.Version=0.2.0'.
var Version = "0.1.0"

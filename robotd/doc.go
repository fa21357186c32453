// Package robotd is the robot: it collects the pages of the hosts that a manager
// assigns to it, and hands them in as signed batches.
//
// Its modules are joined by queues:
//
//	manager ─ list ─▶ frontier ─▶ gate ─▶ fetch ─▶ extract ─▶ store ─▶ batch ─▶ upload
//	                     ▲         (polite)            │
//	                     └────────── links ────────────┘
//
// The gate hands out one host per IP address at a time, and an address only when
// its interval has passed. A turn then travels through fetch, extract and store;
// only when its page is stored does the address go back to the gate. So a host has
// one page in hand at any time, and what that is follows from its frontier. By
// setting, a run takes several pages over one connection before it ends.
//
// The gate as a whole is open in the window, while the day's and the month's bytes
// last, and not before an interval has passed since the start. A fetch without
// progress is cancelled by the watchdog, and a worker that hangs is replaced.
//
// A cycle, usually a day, ends when every assigned host has nothing left, or when the window
// last closes before the next is due; what nobody came to is kept for that one. Where
// a host's nights have no room for all of its pages, package schedule chooses (revisit.by). At the end the
// segments are sealed into a batch, the log of the collection goes to the manager,
// and the frontier's visits are settled for the next cycle. The data folder:
//
//	robot.json, robot.key  who the robot is: credentials, and the key it signs with
//	robot.lock             held while a daemon runs
//	list.json              the last list of hosts from the manager
//	cycle.json             which cycle runs, and since when
//	frontier/              package frontier
//	restraints, robots/, servers  package memory
//	open/ sealing/ spool/  package batch
//	receipts/              signed receipts of published batches
//	log/                   collection logs that are not handed in yet
//	discovered/            hosts found outside the assignment, and URLs of other robots' shares
//	coverage.tsv           package coverage
//	usage.json             bytes that the day and the month have used
//	ordered.json           hosts that an operator has ordered to be visited now
//	paused.json            while the robot is paused by its site
//	held.json              while it is by the manager's order
//	robotd.sock            where the running daemon answers robotd's commands
//	tap.sock               package tap
//	status.json            what "robotd status" shows of a robot that does not run
//	update/                package update
package robotd

// Version is the program's, as it stands in manifests and in the User-Agent. A
// release's build sets it: go build -ldflags '-X sheaf/robotd.Version=0.2.0'.
var Version = "0.1.0"

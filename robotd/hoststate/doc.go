// Package hoststate stores what a robot must remember about hosts across restarts and crashes:
// until when each host and each address must be left alone, the texts of robots.txt files, and how
// fast servers are. A robot that forgot would come back too early and fetch every robots.txt again.
//
// What is written survives the end of the process at any time. It is not synced, so a power failure
// may lose some of it, which is then learned again. Checksums reveal a line or file that was
// written in part; it is skipped.
package hoststate

import (
	"time"
)

// longest is the limit for how long anything stored is believed: a Retry-After, a Crawl-delay, and
// a robots.txt (RFC 9309, 2.4). So a clock that was set back cannot exclude a host for ever.
const longest = 24 * time.Hour

package polite

import "time"

// longest is the limit for how long anything stored is believed: a Retry-After, a Crawl-delay, and
// a robots.txt (RFC 9309, 2.4). So a clock that was set back cannot exclude a host for ever.
const longest = 24 * time.Hour

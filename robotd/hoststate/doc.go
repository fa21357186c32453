// Package hoststate keeps what a robot owes to hosts over a restart and over a kill: until
// when each of them, and each address, is to be left alone, and what its robots.txt
// says. A robot that forgot would come back too early, and would read every
// robots.txt again.
//
// What is written survives the end of the process at any point. It is not synced: where
// the power failed, what was not on disk is learned again, and a line or a file
// that was torn is known by its checksum and passed over.
package hoststate

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// longest is more than anything is believed for: Retry-After and Crawl-delay are bounded
// by it, and a robots.txt is (RFC 9309, 2.4). A clock that was set back cannot
// lose a host.
const longest = 24 * time.Hour

// checked puts its checksum before a text.
func checked(text string) string {
	return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(text)), text)
}

// check takes the checksum off and reports whether it is the text's.
func check(line string) (text string, ok bool) {
	sum, text, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	return text, err == nil && len(sum) == 8 && uint32(want) == crc32.ChecksumIEEE([]byte(text))
}

package polite

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns a name for the machine's present boot and the time since then. That time goes on
// while the process is stopped and while the machine sleeps, and is not changed when the machine's
// clock is set (CLOCK_BOOTTIME, clock_gettime(2)).
func bootTime() (boot string, now time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // every Linux since 2.6.39 has it
		return never, 0
	}
	return bootID(), time.Duration(ts.Nano())
}

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil { // no lease outlasts the process
		return rand.Text()
	}
	return strings.TrimSpace(string(id))
})

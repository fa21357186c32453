package wire

import (
	"fmt"
	"strconv"
	"time"
)

// HeaderLease is a header of the answers to a list and to a heartbeat. It has the robot's lease:
// for how many milliseconds the robot may visit the hosts of the list that it has after the answer,
// or NoLease if there is no end. The time counts from the sending of the request. Without the
// header the lease is not renewed.
const (
	HeaderLease = "Sheaf-Lease"
	NoLease     = "none"
)

// Lease is the value of HeaderLease. The zero value renews no lease.
type Lease struct {
	Renewed bool
	For     time.Duration // 0: without end
}

// String returns the header's value. l.Renewed must be true.
func (l Lease) String() string {
	if l.For == 0 {
		return NoLease
	}
	return strconv.FormatInt(l.For.Milliseconds(), 10)
}

// MaxLease is the limit for a lease.
const MaxLease = 10 * 365 * 24 * time.Hour

// ParseLease parses the header's value, which is empty if there is no such header.
func ParseLease(value string) (Lease, error) {
	switch value {
	case "":
		return Lease{}, nil
	case NoLease:
		return Lease{Renewed: true}, nil
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || ms <= 0 || ms > MaxLease.Milliseconds() {
		return Lease{}, fmt.Errorf("%s %q is no number of milliseconds from 1 to %d", HeaderLease, value, MaxLease.Milliseconds())
	}
	return Lease{Renewed: true, For: time.Duration(ms) * time.Millisecond}, nil
}

// LeaseMargin returns how long before the end of a lease the robot begins its last visit. It is
// also how long after the end the manager waits before it gives the robot's hosts to others. It
// allows for clocks that differ in speed and for a request that is under way.
func LeaseMargin(lease time.Duration) time.Duration { return min(lease/10, time.Minute) }

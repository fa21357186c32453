package stream

import (
	"net"

	"golang.org/x/sys/unix"
)

// tcpClosed is the state of a connection that was reset, or has ended on both sides.
const tcpClosed = 7

// look returns the system's information about a connection.
func look(c *net.TCPConn) (s socket, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return s, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			failed = err
			return
		}
		s.acked, s.ended = int64(info.Bytes_acked), info.State == tcpClosed
		s.queued, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	return s, err == nil && failed == nil
}

package ftp

import (
	"net"

	"golang.org/x/sys/unix"
)

// urgentInLine has the kernel leave urgent data in its place. Clients send an ABOR as such, with
// Telnet's IP and Synch before it (RFC 959, section 4.1.3): the last byte of each such piece, which
// may be the ABOR's line end, would be taken out of the stream otherwise.
func urgentInLine(c *net.TCPConn) error {
	var failed error
	err := control(c, func(fd int) { failed = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
	if err != nil {
		return err
	}
	return failed
}

// unread reports whether bytes have come that nobody has read, below TLS too.
func unread(c *net.TCPConn) bool {
	n := 0
	if c != nil {
		control(c, func(fd int) { n, _, _ = unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) })
	}
	return n > 0
}

func control(c *net.TCPConn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

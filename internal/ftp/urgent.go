package ftp

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// urgentInLine makes the kernel leave urgent data in the stream. Clients send an ABOR as urgent
// data, with Telnet's IP and Synch before it (RFC 959, section 4.1.3). By default the kernel takes
// the last byte of urgent data out of the stream, which may be the ABOR's line end.
func urgentInLine(c *net.TCPConn) error {
	var failed error
	err := rawControl(c, func(fd int) { failed = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
	return errors.Join(err, failed)
}

// unread reports whether c, below TLS, has received bytes that nobody has read.
func unread(c *net.TCPConn) bool {
	n := 0
	if c != nil {
		rawControl(c, func(fd int) { n, _, _ = unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) })
	}
	return n > 0
}

func rawControl(c *net.TCPConn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

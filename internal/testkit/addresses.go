package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Addresses returns n unused host:port pairs, for servers that get their address from a setting.
// They are on a random loopback address, so that no other program takes a port before its server
// listens, or while the server is down.
func Addresses(t testing.TB, n int) (list []string) {
	t.Helper()
	ip := fmt.Sprintf("127.%d.%d.%d", 128+rand.N(64), rand.N(256), 1+rand.N(254))
	for range n {
		l, err := net.Listen("tcp", ip+":0")
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0") // for systems with one loopback address
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

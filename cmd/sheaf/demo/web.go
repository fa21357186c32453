package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"

	"sheaf/cmd/sheaf/demo/sites"
)

//go:embed sites.zip.zst
var packed []byte

// web serves the bundled sites on loopback. Every host has an address of its own, because a robot
// visits one host per address at a time and so can visit several at once. If the system has only
// 127.0.0.1, the hosts share it.
type web struct {
	*sites.Web
	handler *sites.Handler
	at      map[string]string // host name → address:port
	servers []*http.Server
}

func startWeb() (*web, error) {
	z, err := sites.Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("bundled sites: %w", err)
	}
	s, err := sites.Open(z)
	if err != nil {
		return nil, err
	}
	w := &web{Web: s, handler: sites.NewHandler(s), at: map[string]string{}}
	for i, host := range s.Hosts() {
		l, err := net.Listen("tcp", fmt.Sprintf("127.77.0.%d:0", i+1))
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("bundled site %s: %w", host, err)
		}
		server := &http.Server{Handler: w.handler}
		w.servers = append(w.servers, server)
		w.at[host] = l.Addr().String()
		go server.Serve(l)
	}
	return w, nil
}

func (w *web) stop() error {
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Shutdown(context.Background()))
	}
	return errors.Join(errs...)
}

package service

import (
	"log/slog"
	"net/http"
	"time"

	"sheaf/internal/acked"
	"sheaf/internal/connlimit"
	"sheaf/internal/peer"
)

// How long a client may be silent, and how much it may say before it is answered.
// How fast bodies come and go, and for how long, the rooms bound themselves.
const (
	headerTime = 20 * time.Second // for a request's whole header, from its connection's beginning if it is the first
	idleTime   = 2 * time.Minute  // between two requests
	maxHeader  = 64 << 10         // bytes; net/http allows 4 KiB more
)

// httpServer is what all rooms' handlers are served by. Behind proxies they see their clients' addresses.
func httpServer(limits connlimit.Limits, proxies peer.Proxies, h http.Handler, log *slog.Logger) *http.Server {
	limits.Unbounded = proxies.Trust
	return &http.Server{
		Handler:           proxies.Handler(h),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnState:         connlimit.New(limits).ConnState,
		ConnContext:       acked.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

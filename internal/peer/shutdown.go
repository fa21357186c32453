package peer

import (
	"context"
	"net/http"
	"time"
)

// Shutdown is server.Shutdown, but notices within 50 ms that the last request has ended.
// server.Shutdown looks less and less often, in the end twice a second.
func Shutdown(ctx context.Context, server *http.Server) error {
	const look = 50 * time.Millisecond
	for {
		bounded, cancel := context.WithTimeout(ctx, look)
		err := server.Shutdown(bounded)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

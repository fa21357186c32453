package guard

import (
	"context"
	"sync"

	"sheaf/internal/cache"
)

// Place is the place of a search in Limits. The handler leaves it before the answer is sent. A
// build that the handler has begun holds the place to the build's end, even if the client leaves.
// Otherwise clients that leave at once would have any number of builds under way. Its methods may
// be called concurrently.
type Place struct {
	free func()

	mu    sync.Mutex // guards the following
	left  bool       // by the handler
	users int        // the handler, and what it builds
}

// NewPlace returns a place that calls free when nobody needs it any more.
func NewPlace(free func()) *Place { return &Place{free: free, users: 1} }

// Leave ends the handler's use of the place. It may be called again.
func (p *Place) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left {
		p.left = true
		p.endLocked()
	}
}

func (p *Place) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		return false
	}
	p.users++
	return true
}

func (p *Place) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
}

func (p *Place) endLocked() {
	if p.users--; p.users == 0 {
		p.free()
	}
}

// InPlace returns build as a computation for cache.Group that holds the place while it runs. It
// fails with cache.ErrLeft if nobody has the place any more when it begins.
func InPlace[T any](p *Place, build func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (built T, err error) {
		if !p.begin() {
			return built, cache.ErrLeft
		}
		defer p.end()
		return build(ctx)
	}
}

package board

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"sheaf/internal/problem"
	"sheaf/internal/webpage"
)

const (
	liveEvery     = 2 * time.Second
	liveListeners = 100              // at once
	liveLife      = time.Minute      // life of a connection; the browser then connects and is authenticated again
	liveStall     = 10 * time.Second // how long a listener may take nothing
	liveLook      = 5 * time.Second  // time limit for computing the figures; those that take longer are left out
)

// live sends figures to all listeners (server-sent events, HTML Living Standard 9.2). It computes
// them once for all listeners, and only while there are any.
type live struct {
	look     func() map[string][]byte // events by language
	stopping <-chan struct{}          // closed when the service stops; nil: never

	mu        sync.Mutex // guards all below
	listeners map[chan []byte]string
	running   bool
}

// listen returns a channel that gets the newest event in a language until leave is called. It
// returns nil if there are too many listeners.
func (l *live) listen(lang string) (events <-chan []byte, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= liveListeners {
		return nil, nil
	}
	if l.listeners == nil {
		l.listeners = make(map[chan []byte]string)
	}
	c := make(chan []byte, 1)
	l.listeners[c] = lang
	if !l.running {
		l.running = true
		go l.run()
	}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, c)
	}
}

// run computes and sends events until nobody listens or the service stops.
func (l *live) run() {
	ticks := time.NewTicker(liveEvery)
	defer ticks.Stop()
	for l.send(l.look()) {
		select {
		case <-ticks.C:
		case <-l.stopping:
			return
		}
	}
}

// send gives each listener its event, which replaces an earlier one that the listener has not
// taken. It reports whether there are listeners.
func (l *live) send(events map[string][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, lang := range l.listeners {
		select {
		case <-c:
		default:
		}
		c <- events[lang]
	}
	l.running = len(l.listeners) > 0
	return l.running
}

// liveFigures sends the running transfers and the contents of the buffers every liveEvery.
func (b *board) liveFigures(w http.ResponseWriter, r *http.Request) error {
	events, leave := b.live.listen(webpage.Language(r))
	if events == nil {
		return problem.New(http.StatusServiceUnavailable, "too_many_listeners", fmt.Sprintf("%d pages show live figures already", liveListeners))
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for a proxy such as nginx
	end := time.NewTimer(liveLife)
	defer end.Stop()
	stream := http.NewResponseController(w)
	for event := []byte("retry: 1000\n\n"); ; {
		_ = stream.SetWriteDeadline(time.Now().Add(liveStall)) // fails if the connection has no deadlines
		if _, err := w.Write(event); err != nil {
			return nil // the listener is gone
		}
		if err := stream.Flush(); err != nil {
			return nil
		}
		select {
		case event = <-events:
		case <-end.C:
			return nil
		case <-b.Stopping:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// figures makes the events by language: the changing parts of the first page, by the IDs of their
// elements.
func (b *board) figures() map[string][]byte {
	ctx, cancel := context.WithTimeout(context.Background(), liveLook)
	defer cancel()
	all := make(map[string][]byte)
	for _, lang := range []string{"en", "ja"} {
		p := overviewPage{page: page{Page: webpage.Page{Site: b.Site, Lang: lang}}}
		p.addRunning(b.Running)
		names := []string{"running"}
		if err := b.addBuffers(ctx, &p); err != nil {
			b.Log.Warn("live figures: no buffers", "err", err)
		} else if b.Ingest != nil {
			names = append(names, "buffers")
		}
		parts := make(map[string]string)
		for _, name := range names {
			var text strings.Builder
			if err := overviewTemplate().ExecuteTemplate(&text, name, p); err != nil {
				b.Log.Error("live figures", "err", err)
				continue
			}
			parts["live-"+name] = text.String()
		}
		data, err := json.Marshal(parts)
		if err != nil {
			b.Log.Error("live figures", "err", err)
		}
		all[lang] = fmt.Appendf(nil, "event: figures\ndata: %s\n\n", data)
	}
	return all
}

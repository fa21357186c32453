package handover

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// front stands before the servers of a web and notes when robots visit each address. It counts from
// the end of an answer to the next request, which is what robots promise. It cannot be wrong
// because the machine is busy: it takes the time of an answer's end before it sends the answer. And
// if it reads the last request of a robot when that robot has been killed, the request came before
// that.
type front struct {
	mu     sync.Mutex              // guards all below
	visits map[string][]frontVisit // by address
	ended  map[string]time.Time    // by contact of robots whose process has ended
}

// frontVisit is a request and its answer.
type frontVisit struct {
	contact  string // of the robot
	from, to time.Time
}

// stand puts a front before the web's servers, at addresses from base on. Robots are to visit
// these.
func (w *web) stand(base string) *front {
	w.t.Helper()
	f := &front{visits: map[string][]frontVisit{}, ended: map[string]time.Time{}}
	first := net.ParseIP(base).To4()
	moved := map[string]string{} // from a server's address to the front's
	for _, host := range w.hosts {
		server := w.at[host][0]
		if moved[server] == "" {
			_, port, err := net.SplitHostPort(host)
			testkit.Must(w.t, err)
			at := net.IPv4(first[0], first[1], first[2], first[3]+byte(len(moved))).String()
			f.listen(w.t, at, port, server)
			moved[server] = at
		}
		w.at[host] = []string{moved[server]}
	}
	return f
}

// listen passes on the requests that come to an address.
func (f *front) listen(t *testing.T, address, port, server string) {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort(server, port)}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	l, err := net.Listen("tcp", net.JoinHostPort(address, port))
	testkit.Must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := time.Now()
		answer := httptest.NewRecorder()
		// A robot that is gone has been there all the same.
		pass.ServeHTTP(answer, r.WithContext(t.Context()))
		_, contact, _ := strings.Cut(strings.TrimSuffix(r.UserAgent(), ")"), "(+")
		to := time.Now()
		if r.Context().Err() != nil { // the robot hung up some time before; its visit ended then
			to = from
		}
		f.mu.Lock()
		f.visits[address] = append(f.visits[address], frontVisit{contact, from, to})
		f.mu.Unlock()
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes()) // to a robot that may be gone
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
}

// end notes that a robot's process has ended.
func (f *front) end(contact string) {
	if f != nil {
		f.mu.Lock()
		f.ended[contact] = time.Now()
		f.mu.Unlock()
	}
}

// least returns the least time between two visits to an address, and what these visits were. It is
// below zero if there were two at once.
func (f *front) least() (gap time.Duration, where string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gap = time.Hour
	for address, visits := range f.visits {
		visits = slices.Clone(visits)
		for i := range visits {
			v := &visits[i]
			if ended, ok := f.ended[v.contact]; ok && ended.Before(v.to) {
				v.to = ended
				if ended.Before(v.from) {
					v.from = ended
				}
			}
		}
		slices.SortStableFunc(visits, func(a, b frontVisit) int { return a.from.Compare(b.from) })
		for i := range len(visits) - 1 {
			if a, b := visits[i], visits[i+1]; b.from.Sub(a.to) < gap {
				gap, where = b.from.Sub(a.to), fmt.Sprintf("%s, by %s at %v and by %s", address, a.contact, a.to, b.contact)
			}
		}
	}
	return gap, where
}

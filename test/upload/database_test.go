package upload_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/ingest/receive"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/test/batchtest"
)

// refusals notes the answers with which the service refuses requests for its own reasons.
type refusals struct {
	mu      sync.Mutex // guards what follows
	answers []*http.Response
}

func (r *refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode >= 500 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answers = append(r.answers, resp)
	}
	return resp, err
}

// refused returns how often a request was refused, and whether each refusal has said when to try
// again.
func (r *refusals) refused() (times int, unsaid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resp := range r.answers {
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || s <= 0 {
			unsaid = fmt.Sprintf("%s %s: %s", resp.Request.Method, resp.Request.URL.Path, resp.Status)
		}
	}
	return len(r.answers), unsaid
}

// TestDatabaseDiskFull: while the disk of the PostgreSQL server is full, robots are told when to
// try again and keep their batches. Once there is room all are published, without anybody's help.
func TestDatabaseDiskFull(t *testing.T) {
	testkit.Long(t) // waits a minute for what was begun on the full disk
	cluster := dbtest.StartSmall(t, "size=96m")
	h := newInstallation(t, setup{database: cluster.URL, receiver: func(o *receive.Options) { o.RetryAfter = 300 * time.Millisecond }})
	first := batchtest.Make(t, h.robots, 1, batchtest.Site("www.example.jp", 2))
	h.put(first)
	h.drain(h.service())
	h.wantPublished(first)

	free := cluster.Fill(t)
	var sent []*batchtest.Batch
	for n := range int64(40) { // the first ones find room on pages that are there
		var hosts []batchtest.Host
		for i := range 20 {
			hosts = append(hosts, batchtest.Site(fmt.Sprintf("%s%d.example.jp", strings.Repeat("long", 12), i), 1))
		}
		sent = append(sent, batchtest.Make(t, h.robots, n+2, hosts...))
		h.put(sent[n])
	}
	line := new(refusals)
	service := h.service()
	service.Client = &http.Client{Transport: line}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	ended := make(chan error, 1)
	up := h.uploader(service)
	go func() { ended <- up.Drain(ctx) }()
	testkit.Until(t, "refusals", func() bool { times, _ := line.refused(); return times > 1 })
	free()
	testkit.Must(t, testkit.Receive(t, "the end of all uploads", ended))
	if times, unsaid := line.refused(); unsaid != "" {
		t.Errorf("%d refusals, of which one does not say when to try again: %s", times, unsaid)
	}
	for _, b := range append(sent, first) {
		h.wantPublished(b)
	}
}

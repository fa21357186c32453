package httpd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// work works on jobs until the test ends or the returned function is called.
func (c *crawl) work(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Jobs.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (c *crawl) status(t *testing.T, account, path string) api.JobStatus {
	t.Helper()
	resp, body := c.do(t, "GET", account, path, "")
	var st api.JobStatus
	if err := json.Unmarshal([]byte(body), &st); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return st
}

// finished waits until a job has ended.
func (c *crawl) finished(t *testing.T, account, path string) (st api.JobStatus) {
	t.Helper()
	testkit.Until(t, "the job has ended", func() bool {
		st = c.status(t, account, path)
		return st.State == api.JobDone || st.State == api.JobFailed
	})
	return st
}

func (c *crawl) post(t *testing.T, account, path, list string) string {
	t.Helper()
	resp, body := c.do(t, "POST", account, path, list)
	if resp.StatusCode != http.StatusAccepted || !strings.HasPrefix(resp.Header.Get("Location"), "/v1/jobs/") {
		t.Fatalf("%s: %d %v %s", path, resp.StatusCode, resp.Header, body)
	}
	return resp.Header.Get("Location")
}

// A query whose answer is too large is answered by a job. Its result is complete, and does not
// change when something is published.
func TestJob(t *testing.T) {
	testkit.Slow(t)
	c := newCrawl(t, 3, 800, records.Budget{Records: 1024})
	if resp, _ := c.do(t, "GET", "all", "/v1/pages.warc.gz?filter=status:200", ""); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Fatalf("%d: not too much", resp.StatusCode)
	}
	at := c.post(t, "all", "/v1/pages.warc.gz?filter=status:200", "")
	if st := c.status(t, "all", at); st.State != api.JobQueued || st.Result != "" {
		t.Errorf("%+v", st)
	}
	if resp, _ := c.do(t, "GET", "all", at+"/pages.warc.gz", ""); resp.StatusCode != http.StatusConflict {
		t.Errorf("the result of a job that is not done: %d", resp.StatusCode)
	}
	c.work(t)
	st := c.finished(t, "all", at)
	all := c.answer(question{account: "all", match: func(r told) bool { return r.status == 200 }})
	if st.State != api.JobDone || st.Records != int64(len(all)) || st.Scanned < st.Records || st.Expires.IsZero() {
		t.Fatalf("%+v, want %d records", st, len(all))
	}
	for i, line := range all {
		f := strings.Fields(line)
		all[i] = f[0] + " " + f[1]
	}
	slices.Sort(all)
	first, body := c.do(t, "GET", "all", st.Result, "")
	if got := recordsOf(t, body); !slices.Equal(got, all) || int64(len(body)) != st.Bytes {
		t.Fatalf("%d records in %d bytes, want %d in %d\n%s", len(got), len(body), len(all), st.Bytes, difference(got, all))
	}
	c.Publish("20261110", map[string][]*archive.Record{"new.jp": {servetest.Page("http://new.jp/", "new", day)}})
	again, rest := c.do(t, "GET", "all", st.Result, "", "Range", "bytes=1000-", "If-Range", first.Header.Get("ETag"))
	if again.StatusCode != http.StatusPartialContent || rest != body[1000:] {
		t.Errorf("resumed after a publication: %d, %d bytes", again.StatusCode, len(rest))
	}
	if resp, _ := c.do(t, "GET", "sub", at, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another's job: %d", resp.StatusCode)
	}
	if resp, _ := c.do(t, "GET", "all", at+"/pages.tar.gz", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another form: %d", resp.StatusCode)
	}
	c.takeDown(t, catalog.Tombstone{Host: "other.org"})
	if resp, body := c.do(t, "GET", "all", st.Result, ""); resp.StatusCode != http.StatusGone {
		t.Errorf("after a take-down in it: %d %.100q", resp.StatusCode, body)
	}
	if resp, _ := c.do(t, "DELETE", "all", at, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %d", resp.StatusCode)
	}
	if resp, _ := c.do(t, "GET", "all", at, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted job: %d", resp.StatusCode)
	}
	for object := range c.Store.List(t.Context(), results.JobPrefix, "") {
		t.Errorf("left in the store: %s", object.Key)
	}
}

func TestJobOfAList(t *testing.T) {
	c := newCrawl(t, 2, 300, records.Budget{})
	c.work(t)
	at := c.post(t, "sub", "/v1/pages.tar.gz?from=2026&originals=false", "a.example.jp\nhttp://example.jp/\nhttp://192.0.2.7/\n")
	st := c.finished(t, "sub", at)
	want := c.answer(question{account: "sub", match: func(r told) bool { return r.host == "a.example.jp" }})
	if st.State != api.JobDone || st.Records != int64(len(want)) {
		t.Errorf("%+v, want %d records", st, len(want))
	}
	_, body := c.do(t, "GET", "sub", st.Result, "")
	pages := 0
	for _, line := range want {
		if strings.Fields(line)[2] == "200" {
			pages++
		}
	}
	if n := filesIn(t, body); n != pages {
		t.Errorf("%d files, want %d", n, pages)
	}
	if resp, body := c.do(t, "POST", "sub", "/v1/pages.tar.gz?from=x", "a.jp"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// A job that its process left behind is taken up again. Too many jobs are refused. A cancelled job
// leaves nothing.
func TestJobsAreTakenUpAgain(t *testing.T) {
	c := newCrawl(t, 2, 100, records.Budget{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var at []string
	for range 4 {
		at = append(at, c.post(t, "all", "/v1/pages.warc.gz", ""))
	}
	resp, _ := c.do(t, "POST", "all", "/v1/pages.warc.gz", "")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a fifth: %d", resp.StatusCode)
	}
	c.Jobs.Run(ended) // ends in the middle of the first
	if resp, _ := c.do(t, "DELETE", "all", at[1], ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("cancelling one that waits: %d", resp.StatusCode)
	}
	c.work(t)
	for _, i := range []int{0, 2, 3} {
		if st := c.finished(t, "all", at[i]); st.State != api.JobDone || st.Records != int64(len(c.records)) {
			t.Errorf("job %d: %+v, want %d records", i, st, len(c.records))
		}
	}
	_, body := c.do(t, "GET", "all", "/v1/jobs", "")
	var list api.JobList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Jobs) != 3 {
		t.Errorf("%v %s", err, body)
	}
}

// A job that kills its process several times is given up.
func TestDeadlyJob(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newCrawl(t, 1, 50, records.Budget{})
	at := c.post(t, "all", "/v1/pages.warc.gz", "")
	die := func(worker string) {
		if _, err := c.DB.ExecContext(t.Context(), `UPDATE jobs SET state = 'running', worker = ?, beat = 1`, worker); err != nil {
			t.Fatal(err)
		}
	}
	die("2.third")
	c.work(t)
	if st := c.finished(t, "all", at); st.State != api.JobFailed || !strings.Contains(st.Problem, "died 3 times") || st.Expires.IsZero() {
		t.Errorf("%+v", st)
	}
	die("1.second")
	if st := c.finished(t, "all", at); st.State != api.JobDone {
		t.Errorf("%+v", st)
	}
}

package httpd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// The program runs as operators run it, over archives that exist already.
func TestProgram(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	program := testkit.Build(t, "sheaf/cmd/sheaf")
	t.Run("killed in a job", func(t *testing.T) { testJobOutlivesTheService(t, program) })
	t.Run("with the URL index", func(t *testing.T) { testServiceAnswersByTheIndex(t, program) })
}

// `sheaf serve`, killed during a job, gathers the right file after its restart, and leaves no other
// objects of jobs in the store.
func testJobOutlivesTheService(t *testing.T, program string) {
	const pages = 6000
	s := servetest.New(t, nil)
	var captures []*archive.Record
	var list, want []string
	for n := range pages {
		url := fmt.Sprintf("http://www.example.jp/%d", n)
		captures = append(captures, servetest.Page(url, fmt.Sprint(n), day))
		list, want = append(list, url), append(want, url)
	}
	slices.Sort(want)
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": captures})
	data := filepath.Dir(s.Dir)
	p := serveSheaf(t, program, data)
	at := postJob(t, p, strings.Join(list, "\n"))
	id := strings.TrimPrefix(at, api.PathJobs+"/")
	for st := jobOf(t, p, at); st.State != api.JobRunning; st = jobOf(t, p, at) {
		if st.State != api.JobQueued {
			t.Fatalf("%+v before it could be killed; the list is too short", st)
		}
	}
	p.Kill()
	dead := longDead(t, filepath.Join(data, "sheaf.db"), id)
	// The worker may have been killed between writing the result and recording it.
	key := results.JobPrefix + id + "/" + dead
	if err := s.Store.Put(t.Context(), key, strings.NewReader("half"), 4); err != nil {
		t.Fatal(err)
	}

	p = serveSheaf(t, program, data)
	var st api.JobStatus
	testkit.Until(t, "the job is done", func() bool {
		if st = jobOf(t, p, at); st.State == api.JobFailed {
			t.Fatalf("%+v", st)
		}
		return st.State == api.JobDone
	})
	var got []string
	for _, r := range recordsOf(t, string(get(t, p, st.Result))) {
		url, _, _ := strings.Cut(r, " ")
		got = append(got, url)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%d records, want %d\n%s", len(got), len(want), difference(got, want))
	}
	var left []string
	for object, err := range s.Store.List(t.Context(), results.JobPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, object.Key)
	}
	if len(left) != 2 || !slices.Contains(left, results.JobPrefix+id+"/list") || slices.Contains(left, key) {
		t.Errorf("in the store: %v; want the job's list and its result", left)
	}
}

// `sheaf serve` makes the URL index of what is published by itself, and answers out of it: the
// same as before, which shows as that a host can be divided into pages then.
func testServiceAnswersByTheIndex(t *testing.T, program string) {
	s := servetest.New(t, nil)
	var captures []*archive.Record
	for n := range 7000 {
		captures = append(captures, servetest.Answer(fmt.Sprintf("http://www.example.jp/%04d", n), 404, day))
	}
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": captures})
	p := serveSheaf(t, program, filepath.Dir(s.Dir), "poll=1s")
	const ask = "/v1/cdx?url=example.jp/*&output=text&fl=url,timestamp,filename,offset,length&limit=100000"
	before := get(t, p, ask)
	var told records.Pages
	testkit.Until(t, "there is an index", func() bool {
		testkit.Must(t, json.Unmarshal(get(t, p, "/v1/cdx?url=example.jp/*&pageSize=1&showNumPages=true"), &told))
		return told.Pages >= 3
	})
	if after := get(t, p, ask); !bytes.Equal(after, before) || bytes.Count(after, []byte("\n")) != len(captures) {
		t.Errorf("%d lines by the index, %d without it", bytes.Count(after, []byte("\n")), bytes.Count(before, []byte("\n")))
	}
	paged := 0
	for n := range told.Pages {
		paged += bytes.Count(get(t, p, fmt.Sprintf("%s&pageSize=1&page=%d", ask, n)), []byte("\n"))
	}
	if paged != len(captures) {
		t.Errorf("%d lines in %d pages, want %d", paged, told.Pages, len(captures))
	}
}

// longDead spares the test the time until a worker counts as dead: it makes the worker of the job
// silent for long enough, and returns its name.
func longDead(t *testing.T, file, id string) (worker string) {
	t.Helper()
	database, err := db.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	var state string
	if err := database.QueryRowContext(t.Context(), `SELECT state, worker FROM jobs WHERE id = ?`, id).Scan(&state, &worker); err != nil {
		t.Fatal(err)
	}
	if state != string(api.JobRunning) {
		t.Fatalf("the job was %s when the service was killed; the list is too short", state)
	}
	if _, err := database.ExecContext(t.Context(), `UPDATE jobs SET beat = 1 WHERE id = ?`, id); err != nil {
		t.Fatal(err)
	}
	return worker
}

func postJob(t *testing.T, p *servetest.Process, list string) string {
	t.Helper()
	resp, err := http.Post("http://"+p.Addr+"/v1/pages.warc.gz", "text/plain", strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%s %s", resp.Status, text)
	}
	return resp.Header.Get("Location")
}

func jobOf(t *testing.T, p *servetest.Process, at string) (st api.JobStatus) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(get(t, p, at))).Decode(&st); err != nil {
		t.Fatal(err)
	}
	return st
}

func get(t *testing.T, p *servetest.Process, path string) []byte {
	t.Helper()
	resp, err := http.Get("http://" + p.Addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", path, resp.Status, err)
	}
	return data
}

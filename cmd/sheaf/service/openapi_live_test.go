package service

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
	"sheaf/test/batchtest"
	"sheaf/test/operatorstest"
)

// TestBatchesFitTheDescription sends a batch as a robot does, and one as an operator does who has
// it of others.
func TestBatchesFitTheDescription(t *testing.T) {
	s := newTestService(t)
	c := converse(t, s.router)
	operator := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.OperatorToken()) }
	robot := batchtest.NewRobots(t)

	c.auth = operator
	c.ask(200, "POST", "/v1/admin/hosts", `{"hosts":["http://127.0.0.1:81/"]}`)
	var admitted, joined struct{ Token, Secret string }
	said := func(of []byte, into any) {
		t.Helper()
		if err := json.Unmarshal(of, into); err != nil {
			t.Fatal(err)
		}
	}
	said(c.ask(201, "POST", "/v1/admin/robots", `{"name":"`+robot.Name+`"}`).Body.Bytes(), &admitted)
	join, err := json.Marshal(wire.JoinRequest{Token: admitted.Token, Version: "test", PublicKey: robot.Key.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	c.auth = func(*http.Request) {}
	said(c.ask(200, "POST", wire.PathJoin, string(join)).Body.Bytes(), &joined)
	c.auth = func(r *http.Request) { r.SetBasicAuth(robot.Name, joined.Secret) }
	c.ask(200, "POST", "/v1/robots/"+robot.Name+"/subscribe", "")
	list := c.ask(200, "GET", "/v1/robots/"+robot.Name+"/list", "")
	if robot.Generation, err = strconv.ParseInt(list.Header().Get(wire.HeaderGeneration), 10, 64); err != nil {
		t.Fatal(err)
	}

	b := batchtest.Make(t, robot, 1, batchtest.Site("127.0.0.1:81", 5))
	at := wire.PathUploads + string(b.ID)
	begin := func() {
		c.ask(201, "POST", wire.PathUploads, "", "Tus-Resumable", "1.0.0", "Upload-Length", strconv.Itoa(len(b.Data)),
			"Upload-Metadata", "batch "+base64.StdEncoding.EncodeToString([]byte(b.ID)))
	}
	patch := func(status, from int, data []byte) {
		c.ask(status, "PATCH", at, string(data), "Tus-Resumable", "1.0.0", "Upload-Offset", strconv.Itoa(from), "Content-Type", "application/offset+octet-stream")
	}
	begin()
	patch(204, 0, b.Data[:100])
	if offset := c.ask(200, "HEAD", at, "", "Tus-Resumable", "1.0.0").Header().Get("Upload-Offset"); offset != "100" {
		t.Errorf("after 100 bytes: %q", offset)
	}
	patch(409, 50, b.Data[50:])
	c.ask(204, "DELETE", at, "", "Tus-Resumable", "1.0.0")
	c.ask(404, "HEAD", at, "", "Tus-Resumable", "1.0.0")
	begin()
	patch(204, 0, b.Data)
	signed := string(b.Signed)
	c.ask(400, "PUT", "/v1/batches/"+string(b.ID)+"/manifest", `{"signed":"{}","ed25519":""}`)
	c.ask(202, "PUT", "/v1/batches/"+string(b.ID)+"/manifest", signed)
	c.ask(200, "PUT", "/v1/batches/"+string(b.ID)+"/manifest", signed)
	c.ask(200, "GET", "/v1/batches/"+string(b.ID)+"/receipt?sha256="+b.Manifest.SHA256, "")
	c.auth = operator
	c.ask(200, "GET", "/v1/admin/batches/"+string(b.ID), "")
	c.ask(404, "GET", "/v1/admin/batches/"+string(b.ID)+"/others", "")
	c.ask(409, "POST", "/v1/admin/batches/"+string(b.ID)+"/discard", "")

	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "crawl.warc")
	if err != nil {
		t.Fatal(err)
	}
	const page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>a page"
	warc := "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://127.0.0.1:81/\r\nWARC-Date: 2026-11-20T03:00:00Z\r\n" +
		"WARC-Record-ID: <urn:uuid:5c0ef7a0-4c3b-4d22-9f7a-000000000001>\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: " +
		strconv.Itoa(len(page)) + "\r\n\r\n" + page + "\r\n\r\n"
	if _, err := file.Write([]byte(warc)); err != nil {
		t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	c.ask(200, "POST", "/v1/admin/imports", body.String(), "Content-Type", form.FormDataContentType())
	c.ask(400, "POST", "/v1/admin/imports", "nothing", "Content-Type", "text/plain")
	c.ask(200, "GET", "/v1/admin/batches?limit=10", "")
}

// TestJobsAndWatchesAreAnsweredAsDescribed gathers pages by a job, and watches a page.
func TestJobsAndWatchesAreAnsweredAsDescribed(t *testing.T) {
	s := servetest.New(t, nil)
	s.Account("alice", "always", "jp")
	day := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": {servetest.Page("http://www.example.jp/", "<p>a page", day)}})
	watches, err := watch.New(watch.Options{DB: s.DB, Records: s.Library.Records, Account: s.Accounts.Find, Base: "https://archive.test", Unconfirmed: true, Mail: new(mailer.Server)})
	if err != nil {
		t.Fatal(err)
	}
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Site: &webpage.Site{Version: "test"}, Jobs: s.Jobs, Watches: watches,
		Gate: operatorstest.Shut,
	}); err != nil {
		t.Fatal(err)
	}
	c := converse(t, router)
	c.auth = func(r *http.Request) { r.SetBasicAuth("alice", "alice") }

	taken := c.ask(202, "POST", "/v1/pages.warc.gz?matchType=domain", "www.example.jp\n", "Content-Type", "text/plain")
	at := taken.Header().Get("Location")
	c.ask(200, "GET", at, "")
	c.ask(409, "GET", at+"/pages.warc.gz", "")
	c.ask(200, "GET", "/v1/jobs", "")
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan struct{})
	go func() { defer close(worked); s.Jobs.Run(ctx) }()
	defer func() { stop(); <-worked }()
	testkit.Until(t, "the job is done", func() bool {
		var st api.JobStatus
		testkit.Must(t, json.Unmarshal(c.ask(200, "GET", at, "").Body.Bytes(), &st))
		if st.State == api.JobFailed {
			t.Fatalf("%+v", st)
		}
		return st.State == api.JobDone
	})
	file := c.ask(200, "GET", at+"/pages.warc.gz", "")
	c.ask(206, "GET", at+"/pages.warc.gz", "", "Range", "bytes=0-9")
	c.ask(304, "GET", at+"/pages.warc.gz", "", "If-None-Match", file.Header().Get("ETag"))
	c.ask(204, "DELETE", at, "")
	c.ask(404, "GET", at, "")
	c.ask(400, "POST", "/v1/pages.warc.gz?nonsense=1", "")

	var made struct{ ID string }
	if err := json.Unmarshal(c.ask(201, "POST", "/v1/watches", `{"host":"www.example.jp"}`).Body.Bytes(), &made); err != nil || made.ID == "" {
		t.Fatal(made, err)
	}
	c.ask(403, "POST", "/v1/watches", `{"host":"www.example.com"}`)
	c.ask(400, "POST", "/v1/watches", strings.Repeat("[", 10))
	for _, path := range []string{"/v1/watches", "/v1/watches/" + made.ID, "/v1/watches.atom", "/v1/watches/" + made.ID + ".atom"} {
		c.ask(200, "GET", path, "")
	}
	c.ask(404, "GET", "/v1/watches/none", "")
	c.ask(204, "DELETE", "/v1/watches/"+made.ID, "")
}

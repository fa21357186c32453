package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/ingest"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/robotd"
	robotclient "sheaf/robotd/client"
	"sheaf/serve/client"
	"sheaf/test/batchtest"
	"sheaf/test/metricstest"
)

// own is a host that the demo's robot has, and foreign is a host that it does not have.
const (
	own     = "www.example.jp"
	foreign = "www.example.com"
)

// refusal is a reason for which a batch is set aside.
type refusal struct {
	reason wire.Reason
	what   string
	send   func(d *demo, r *robot)               // brings the batch
	cure   func(d *demo, r *robot, batch string) // nil: the batch is discarded
}

// refusals returns a fault for each reason of the quarantine.
func refusals() (list []fault) {
	for _, one := range []refusal{
		{wire.ReasonSHAMismatch, "a batch is damaged on its way", func(d *demo, r *robot) {
			b := r.batch(1, own)
			signed := slices.Clone(b.Data)
			b.Data[len(b.Data)/3] ^= 1
			r.bring(b)
			b.Data = signed
		}, func(d *demo, r *robot, batch string) {
			r.bring(r.sent)
			d.tell("cure", "the robot has sent its whole copy under the same ID")
		}},
		{wire.ReasonTruncated, "a file by FTP ends too early", func(d *demo, r *robot) {
			whole := pages(tar.Header{Name: own + "/index.html", Typeflag: tar.TypeReg}, testBytes(100_000))
			r.store("part.tar.gz", whole[:len(whole)/2])
		}, nil},
		{wire.ReasonCorruptMember, "a robot signs a batch that breaks the format", func(d *demo, r *robot) {
			b := r.batch(1, own)
			b.Data[len(b.Data)/3] ^= 1
			r.bring(r.Resign(d, b))
		}, nil},
		{wire.ReasonHostNotAssigned, "a robot brings a host that it does not have", func(d *demo, r *robot) {
			r.bring(r.batch(1, foreign))
		}, release},
		{wire.ReasonPathEscape, "an entry's path leads out of its tree", func(d *demo, r *robot) {
			r.store("pages.tar.gz", pages(tar.Header{Name: own + "/../../../etc/passwd", Typeflag: tar.TypeReg}, []byte("root")))
		}, nil},
		{wire.ReasonLinkEntry, "an entry is a symbolic link", func(d *demo, r *robot) {
			r.store("pages.tar.gz", pages(tar.Header{Name: own + "/index.html", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil))
		}, nil},
		{wire.ReasonBombRatio, "a small file expands to very much", func(d *demo, r *robot) {
			r.store("pages.tar.gz", pages(tar.Header{Name: own + "/index.html", Typeflag: tar.TypeReg}, make([]byte, 300<<20)))
		}, nil},
		{wire.ReasonIDReuse, "an ID comes again with other bytes", func(d *demo, r *robot) {
			r.bring(r.batch(1, own))
			d.until(1, "sheaf_batches", "state", "post-split")
			again := r.batch(1, own, "the second robot's page")
			r.bring(again)
		}, nil},
		{wire.ReasonBadSignature, "a manifest is signed with another key", func(d *demo, r *robot) {
			r.bring(batchtest.NewRobots(d).Sign(d, r.batch(1, own)))
		}, nil},
		{wire.ReasonClock, "a robot's clock is two days ahead", func(d *demo, r *robot) {
			b := r.batch(1, own)
			b.Manifest.Created = time.Now().Add(48 * time.Hour)
			r.bring(r.Reframe(d, b, b.Range(0)))
		}, release},
		{wire.ReasonForeign, "a folder has not the name of a host", func(d *demo, r *robot) {
			r.store("pages.tar.gz", pages(tar.Header{Name: "holiday pictures/index.html", Typeflag: tar.TypeReg}, []byte("a page")))
		}, nil},
	} {
		list = append(list, fault{
			name: string(one.reason), reason: string(one.reason), what: one.what, alerts: []string{"SheafQuarantine"},
			page: "/board/batches?state=quarantined", shows: string(one.reason), course: one.course,
		})
	}
	return append(list, fault{name: string(wire.ReasonTooLarge), reason: string(wire.ReasonTooLarge), what: "a robot offers a batch that fits on no disk", course: tooLarge})
}

func (one refusal) course(d *demo) course {
	r := &robot{demo: d}
	return course{cause: func() metricstest.Families {
		r.Robots = d.join("waseda")
		one.send(d, r)
		return d.until(1, "sheaf_batches", "state", "quarantined")
	}, cure: func() metricstest.Families {
		d.sheaf("batch", "ls", "--state", "quarantined")
		batch := d.quarantined()
		if shown := d.sheaf("batch", "show", batch); !strings.Contains(shown, string(one.reason)) {
			d.Errorf("the reason is not %s", one.reason)
		}
		if one.cure == nil {
			d.sheaf("batch", "discard", batch, "--note", "tried by test/faults")
		} else {
			one.cure(d, r, batch)
			d.until(1, "sheaf_batches", "state", "post-split")
		}
		return d.until(0, "sheaf_batches", "state", "quarantined")
	}}
}

func release(d *demo, r *robot, batch string) {
	d.sheaf("batch", "release", batch, "--note", "tried by test/faults")
}

// operator returns a client of the operators' paths.
func (d *demo) operator() *client.Client {
	d.Helper()
	c, err := client.Operator(d.url(), d.token())
	testkit.Must(d, err)
	return c
}

// quarantined returns the ID of the batch in the quarantine.
func (d *demo) quarantined() string {
	d.Helper()
	list, err := client.Call(d.Context(), d.operator(), ingest.ListBatches, ingest.BatchQuery{State: wire.StateQuarantined})
	testkit.Must(d, err)
	if len(list.Batches) != 1 {
		d.Fatalf("the quarantine has %d batches, want 1", len(list.Batches))
	}
	return string(list.Batches[0].ID)
}

// robot is a robot that has joined, and brings what no robot should.
type robot struct {
	*demo
	*batchtest.Robots
	sent *batchtest.Batch // the last batch that bring was given
}

// join admits a robot, which joins and gets the host own.
func (d *demo) join(name string) *batchtest.Robots {
	d.Helper()
	var admitted manager.AdmitResponse
	operator := d.operator()
	testkit.Must(d, operator.Do(d.Context(), http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted))
	cfg := robotd.DefaultConfig()
	cfg.DataDir, cfg.Contact, cfg.Window, cfg.Disk.Free = d.robotDir(), "https://robots.example.ac.jp/", "always", 0
	cfg.Network.Hosts, cfg.Network.AllowPrivate = map[string]string{own: d.at.http}, true
	_, err := robotd.Join(d.Context(), d.url(), admitted.Token, cfg.DataDir)
	testkit.Must(d, err)
	program, err := robotd.New(cfg, slog.New(slog.DiscardHandler))
	testkit.Must(d, err)
	defer program.Close()
	testkit.Must(d, program.Subscribe(d.Context()))
	testkit.Must(d, operator.Do(d.Context(), http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{"http://" + own + "/"}}, nil))
	r := &batchtest.Robots{Name: name, Key: d.identity().Key}
	d.database(func(in *sql.DB) error {
		return in.QueryRowContext(d.Context(), `SELECT number FROM generation`).Scan(&r.Generation)
	})
	d.tell("robot", "%s has joined and has the host %s", name, own)
	return r
}

func (d *demo) robotDir() string { return filepath.Join(d.dir, "robot") }

func (d *demo) identity() *robotclient.Identity {
	d.Helper()
	id, err := robotclient.LoadIdentity(d.robotDir())
	testkit.Must(d, err)
	return id
}

// batch makes the robot's n-th batch of one page of a host.
func (r *robot) batch(n int64, host string, text ...string) *batchtest.Batch {
	r.Helper()
	page := batchtest.Page{Path: "/", Body: []byte("a page " + strings.Join(text, ""))}
	return batchtest.Make(r.TB, r.Robots, n, batchtest.Host{Name: host, Each: slices.Values([]batchtest.Page{page})})
}

// bring stores a batch and its manifest by FTP.
func (r *robot) bring(b *batchtest.Batch) {
	r.Helper()
	r.store(string(b.ID)+".tar.gz", b.Data)
	r.store(string(b.ID)+".manifest", b.Signed)
	r.sent = b
}

// store stores a file by FTP. A refusal is the service's answer to the last file of a bad batch.
func (d *demo) store(name string, data []byte) {
	d.Helper()
	id := d.identity()
	conn, err := ftp.Dial(d.at.drop)
	testkit.Must(d, err)
	defer conn.Quit()
	testkit.Must(d, conn.Login(id.Robot, id.Secret))
	if err := conn.Stor(name, bytes.NewReader(data)); err != nil {
		d.tell("fault", "the answer to %s is: %s", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	d.tell("fault", "%s, %d bytes, is stored by FTP", name, len(data))
}

// tooLarge offers an upload that the service refuses. There is no alert, since nothing is stored.
func tooLarge(d *demo) course {
	offer := func(size int64) (status int, text string) {
		id := d.identity()
		req, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.url()+wire.PathUploads, nil)
		testkit.Must(d, err)
		req.SetBasicAuth(id.Robot, id.Secret)
		req.Header.Set("Tus-Resumable", "1.0.0")
		req.Header.Set("Upload-Length", strconv.FormatInt(size, 10))
		req.Header.Set("Upload-Metadata", "batch "+base64.StdEncoding.EncodeToString([]byte(wire.NewBatchID(id.Robot, time.Now(), 1))))
		resp, err := http.DefaultClient.Do(req)
		testkit.Must(d, err)
		defer resp.Body.Close()
		var answer bytes.Buffer
		_, err = answer.ReadFrom(resp.Body)
		testkit.Must(d, err)
		d.tell("answer", "to %d bytes: %s %s", size, resp.Status, strings.TrimSpace(answer.String()))
		return resp.StatusCode, answer.String()
	}
	return course{cause: func() metricstest.Families {
		d.join("waseda")
		if status, text := offer(1 << 50); status != http.StatusRequestEntityTooLarge || !strings.Contains(text, string(wire.ReasonTooLarge)) {
			d.Errorf("%d %s", status, text)
		}
		return d.until(0, "sheaf_batches", "state", "quarantined")
	}, cure: func() metricstest.Families {
		if status, text := offer(1 << 20); status != http.StatusCreated {
			d.Errorf("a smaller batch: %d %s", status, text)
		}
		return d.scrape()
	}}
}

// pages packs one entry without a manifest, as other programs do.
func pages(h tar.Header, body []byte) []byte {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	archive := tar.NewWriter(z)
	h.Mode, h.Size, h.ModTime = 0o644, int64(len(body)), time.Now()
	for _, err := range []error{archive.WriteHeader(&h), write(archive, body), archive.Close(), z.Close()} {
		if err != nil {
			panic(fmt.Sprint("in memory: ", err))
		}
	}
	return file.Bytes()
}

func write(to *tar.Writer, body []byte) error {
	_, err := to.Write(body)
	return err
}

// testBytes returns bytes that cannot be compressed, the same each time.
func testBytes(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(data) // cannot fail
	return data
}

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sheaf/archive/store/storetest"
	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/mailtest"
	"sheaf/test/metricstest"
	"sheaf/ui/removal"
)

// all returns every fault, in the order of rules.yml, and after them one for each reason of the
// quarantine.
func all() []fault {
	return append([]fault{
		{name: "down", what: "the service is killed", alerts: []string{"SheafDown"}, course: down},
		{name: "database", what: "PostgreSQL stops", alerts: []string{"SheafCheckFails", "SheafMetricsMissing"}, page: "/board/", shows: "database", course: databaseAway},
		{name: "store", what: "the object store does not answer", alerts: []string{"SheafCheckFails", "SheafStoreFails"}, page: "/board/", shows: "store", course: storeSilent},
		{name: "store-disk", what: "the disk of the object store is taken out", alerts: []string{"SheafCheckFails", "SheafStoreFails"}, page: "/board/", shows: "is its disk mounted?", course: storeAway},
		{name: "damage", what: "stored archives are cut off", alerts: []string{"SheafArchiveDamaged"}, page: "/board/store", shows: "www.example.jp", course: damage},
		{name: "copy", what: "the disk of the store's copy is not mounted", alerts: []string{"SheafCopyBehind"}, page: "/board/store", shows: "copy", course: copyBehind},
		{name: "disk", what: "the disk fills up", alerts: []string{"SheafDiskNearlyFull", "SheafUploadsStopped"}, page: "/board/", shows: "uploads stop at 60 %", course: diskFull},
		{name: "stuck", what: "a batch cannot be split", alerts: []string{"SheafBufferOld"}, page: "/board/batches?state=pre-split", shows: "pre-split", course: stuck},
		{name: "missed", what: "a publish window passes without a publication", alerts: []string{"SheafPublicationMissed"}, page: "/board/", shows: "post-split", course: missed},
		{name: "certificate", what: "a certificate is about to run out", alerts: []string{"SheafCertificateExpires"}, course: certificateOld},
		{name: "certificate-broken", what: "a new certificate comes without its key", alerts: []string{"SheafCertificateExpires"}, page: "/board/", shows: "certificate", course: certificateBroken},
		{name: "robot", what: "a robot is not heard of any more", alerts: []string{"SheafRobotSilent"}, page: "/board/robots", shows: "waseda", course: robotSilent},
		{name: "robot-clock", what: "a robot's clock is wrong", alerts: []string{"SheafRobotTrouble"}, page: "/board/", shows: "its clock is wrong", course: clockWrong},
		{name: "rollout", what: "the roll-out of a release is stopped", alerts: []string{"SheafRolloutStopped"}, page: "/board/releases", shows: "too slow", course: rolloutStopped},
		{name: "slow", what: "a reader takes its bytes slowly", alerts: []string{"SheafTransferRateFell"}, page: "/board/transfers", shows: "download", course: slow},
		{name: "mail", what: "the mail server refuses connections", alerts: []string{"SheafWatchesFail", "SheafMailsFail"}, page: "/board/watches", shows: "alice", course: mailsFail},
		{name: "removal", what: "nobody decides about a request for removal", alerts: []string{"SheafRemovalUndecided"}, page: "/board/removals", shows: "www.example.jp", course: removalUndecided},
		{name: "quorum", what: "a quorum loses its majority", alerts: []string{"SheafLeaseUnheld"}, page: "/board/", shows: "majority", course: quorumLost},
	}, refusals()...)
}

func down(d *demo) course {
	return course{cause: func() metricstest.Families {
		d.process.Kill()
		return nil
	}, cure: func() metricstest.Families {
		d.start()
		d.tell("cure", "the service is started again")
		return d.scrape()
	}}
}

func databaseAway(d *demo) course {
	cluster := dbtest.Start(d)
	return course{settings: map[string]any{"database.url": cluster.URL}, cause: func() metricstest.Families {
		cluster.Stop()
		return d.until(0, "sheaf_check_up", "check", "database")
	}, cure: func() metricstest.Families {
		cluster.Start(d)
		d.tell("cure", "PostgreSQL is started again")
		d.until(1, "sheaf_check_up", "check", "database")
		d.until(1, "sheaf_lease_held", "lease", "keeper")
		return d.until(1, "sheaf_lease_held", "lease", "urls")
	}}
}

func storeSilent(d *demo) course {
	server := storetest.StartVersity(d)
	o := server.Options(d)
	settings := map[string]any{"store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket, "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey}
	return course{settings: settings, cause: func() metricstest.Families {
		server.Kill()
		return d.storeFails()
	}, cure: func() metricstest.Families {
		server.Start(d)
		d.tell("cure", "the object store is started again")
		return d.storeWorks()
	}}
}

func storeAway(d *demo) course {
	var back func()
	return course{cause: func() metricstest.Families {
		back = d.takeStore()
		return d.storeFails()
	}, cure: func() metricstest.Families {
		back()
		return d.storeWorks()
	}}
}

// storeFails imports a batch while the store fails, and waits until the metrics show a failure.
func (d *demo) storeFails() metricstest.Families {
	d.Helper()
	d.importPage("http://www.example.jp/", []byte("a page"))
	d.until(0, "sheaf_check_up", "check", "store")
	var all metricstest.Families
	testkit.Until(d, "a failure", func() bool {
		all = d.scrape()
		for _, operation := range []string{"list", "put"} {
			if n, _ := all.Value("sheaf_store_failures_total", "operation", operation); n > 0 {
				return true
			}
		}
		return false
	})
	return all
}

// storeWorks waits until the batch of storeFails is split and the check of the store succeeds.
func (d *demo) storeWorks() metricstest.Families {
	d.Helper()
	d.until(1, "sheaf_batches", "state", "post-split")
	d.sheaf("batch", "ls")
	return d.until(1, "sheaf_check_up", "check", "store")
}

// publish imports a page and publishes it.
func (d *demo) publish(page string, body []byte) {
	d.Helper()
	d.importPage(page, body)
	d.until(1, "sheaf_batches", "state", "post-split")
	d.sheaf("batch", "publish")
}

func damage(d *demo) course {
	backup := filepath.Join(d.dir, "copy")
	return course{settings: map[string]any{"store.scrub.every": "100ms"}, cause: func() metricstest.Families {
		d.publish("http://www.example.jp/", []byte("a page"))
		d.until(1, "sheaf_scrub_ratio")
		testkit.Must(d, os.Mkdir(backup, 0o755))
		d.sheaf("store", "copy", backup)
		damaged := 0
		testkit.Must(d, filepath.WalkDir(filepath.Join(d.objects(), "segments"), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			damaged++
			d.tell("fault", "%s is cut off after 100 bytes", filepath.Base(path))
			return os.Truncate(path, 100)
		}))
		return d.until(float64(damaged), "sheaf_scrub_lost")
	}, cure: func() metricstest.Families {
		d.sheaf("fsck", "--repair", backup)
		d.until(0, "sheaf_scrub_problems")
		return d.until(0, "sheaf_scrub_lost")
	}}
}

func copyBehind(d *demo) course {
	backup := filepath.Join(d.dir, "copy")
	age := func() float64 {
		age, _ := d.scrape().Value("sheaf_store_copy_age_seconds")
		return age
	}
	const day = 24 * 3600
	return course{settings: map[string]any{"store.copy": backup, "store.scrub.every": "100ms"}, cause: func() metricstest.Families {
		d.publish("http://www.example.jp/", []byte("a page"))
		testkit.Until(d, "the copy to be late", func() bool { // a turn that is under way writes its own time
			if age() <= day {
				d.later(30 * time.Hour)
			}
			return age() > day
		})
		return d.scrape()
	}, cure: func() metricstest.Families {
		testkit.Must(d, os.Mkdir(backup, 0o755))
		d.tell("cure", "%s is there", backup)
		d.sheaf("store", "copy", backup)
		testkit.Until(d, "the copy to be new", func() bool { return age() < day })
		return d.scrape()
	}}
}

func diskFull(d *demo) course {
	disk := d.TempDir()
	if err := testkit.MountSmall(d, disk, "size=128m"); err != nil {
		testkit.Missing(d, "needs to mount a tmpfs, which root may, and others in a namespace of their own: unshare -Urm go run ./test/faults disk: %v", err)
	}
	var batch string
	return course{settings: map[string]any{"data": disk, "uploads.full": 60}, cause: func() metricstest.Families {
		d.tell("fault", "a large damaged batch lies in the quarantine, and other files on the disk")
		d.join("waseda")
		d.store("large.tar.gz", testBytes(10<<20))
		d.until(1, "sheaf_batches", "state", "quarantined")
		batch = d.quarantined()
		testkit.Must(d, os.WriteFile(filepath.Join(disk, "else"), make([]byte, 96<<20), 0o600)) // the service itself has enough
		return d.until(0, "sheaf_check_up", "check", "uploads")
	}, cure: func() metricstest.Families {
		d.sheaf("batch", "discard", batch)
		d.sheaf("gc")
		testkit.Must(d, os.Remove(filepath.Join(disk, "else")))
		d.tell("cure", "the other files are deleted")
		return d.until(1, "sheaf_check_up", "check", "uploads")
	}}
}

func stuck(d *demo) course {
	var back func()
	return course{cause: func() metricstest.Families {
		back = d.takeStore()
		d.importPage("http://www.example.jp/", []byte("a page"))
		d.until(1, "sheaf_batches", "state", "pre-split")
		d.later(2 * time.Hour)
		return d.scrape()
	}, cure: func() metricstest.Families {
		d.sheaf("batch", "ls", "--state", "pre-split")
		back()
		return d.until(1, "sheaf_batches", "state", "post-split")
	}}
}

func missed(d *demo) course {
	at := func(hours int) string { return time.Now().UTC().Add(time.Duration(hours) * time.Hour).Format("15:04") }
	return course{settings: map[string]any{"publish.window": fmt.Sprintf("%s-%s UTC", at(2), at(3))}, cause: func() metricstest.Families {
		d.importPage("http://www.example.jp/", []byte("a page"))
		d.until(1, "sheaf_batches", "state", "post-split")
		d.later(50 * time.Hour)
		return d.scrape()
	}, cure: func() metricstest.Families {
		d.sheaf("batch", "publish")
		return d.until(0, "sheaf_publication_missed")
	}}
}

// certificate writes a certificate that expires after some days, and its key, for the settings
// drop.cert and drop.key.
func (d *demo) certificate(days int) map[string]any {
	d.Helper()
	cert, key := testkit.Certificate(d, "archive.example.jp", time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, days))
	return map[string]any{"drop.cert": d.file("cert.pem", cert), "drop.key": d.file("key.pem", key)}
}

// renewed waits until the service has a certificate for more than 20 days, and its check succeeds.
func (d *demo) renewed() metricstest.Families {
	d.Helper()
	d.tell("cure", "a new certificate and its key lie in place of the old ones")
	testkit.Until(d, "the new certificate", func() bool {
		left, _ := d.scrape().Value("sheaf_certificate_remaining_seconds", "setting", "drop.cert")
		return left > 20*24*3600
	})
	return d.until(1, "sheaf_check_up", "check", "certificates")
}

func certificateOld(d *demo) course {
	return course{settings: d.certificate(15), cause: func() metricstest.Families {
		d.certificate(13)
		d.tell("time", "the certificate is replaced by one that expires in 13 days")
		testkit.Until(d, "the certificate is read", func() bool {
			left, _ := d.scrape().Value("sheaf_certificate_remaining_seconds", "setting", "drop.cert")
			return left < 14*24*3600
		})
		return d.until(0, "sheaf_check_up", "check", "certificates")
	}, cure: func() metricstest.Families {
		d.certificate(90)
		return d.renewed()
	}}
}

func certificateBroken(d *demo) course {
	return course{settings: d.certificate(30), cause: func() metricstest.Families {
		other, _ := testkit.Certificate(d, "archive.example.jp", time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 90))
		d.file("cert.pem", other) // the key is that of the old one
		return d.until(0, "sheaf_check_up", "check", "certificates")
	}, cure: func() metricstest.Families {
		d.certificate(90)
		return d.renewed()
	}}
}

func robotSilent(d *demo) course {
	return course{cause: func() metricstest.Families {
		d.join("waseda")
		d.later(3 * time.Hour)
		return d.scrape()
	}, cure: func() metricstest.Families {
		d.sheaf("robot", "ls")
		d.sheaf("robot", "dead", "waseda", "--reason", "its disk is lost")
		d.sheaf("robot", "revoke", "waseda")
		return d.scrape()
	}}
}

func clockWrong(d *demo) course {
	return course{cause: func() metricstest.Families {
		d.join("waseda")
		d.tell("time", "its clock is two hours behind")
		d.exec(`INSERT INTO robot_troubles (robot, kind, detail, since) VALUES ('waseda', 'clock', '2h0m0s behind', ?)`, db.Millis(time.Now()))
		return d.until(1, "sheaf_wrong", "kind", "robot-clock")
	}, cure: func() metricstest.Families {
		d.sheaf("wrong")
		d.tell("time", "its site sets the clock")
		d.exec(`UPDATE robot_troubles SET ended = ?`, db.Millis(time.Now()))
		return d.until(0, "sheaf_wrong", "kind", "robot-clock")
	}}
}

func rolloutStopped(d *demo) course {
	return course{cause: func() metricstest.Families {
		now := time.Now()
		release := wire.Release{Counter: 1, Version: "1", Expires: now.AddDate(0, 1, 0).UTC().Truncate(time.Second), Files: []wire.ReleaseFile{
			{Platform: "linux-amd64", Size: 1, SHA256: strings.Repeat("0", 64)}}}
		text, err := release.Format()
		testkit.Must(d, err)
		d.exec(`INSERT INTO releases (counter, text, signature, published, percent, since, soak) VALUES (1, ?1, ?1, ?2, 1, ?2, 0)`, text, db.Millis(now))
		d.sheaf("release", "rollout", "1", "--stop", "too slow")
		return d.until(1, "sheaf_wrong", "kind", "rollout")
	}, cure: func() metricstest.Families {
		d.sheaf("release", "ls")
		d.sheaf("release", "rollout", "1", "--percent", "10")
		return d.until(0, "sheaf_wrong", "kind", "rollout")
	}}
}

func slow(d *demo) course {
	const path, size = "/pub/jp/example/www/current.tar.gz", 24 << 20
	fetch := func(read func(body io.Reader) (int64, error)) {
		conn := testkit.DialSmall(d, d.at.http)
		defer conn.Close()
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path)
		testkit.Must(d, err)
		if n, err := read(conn); err != nil || n < size {
			d.Errorf("%d bytes of %s: %v", n, path, err)
		}
	}
	ended := func(n int) metricstest.Families {
		d.until(float64(n), "sheaf_transfers_total", "direction", "download", "protocol", "http", "outcome", "ok")
		return d.scrape() // one scrape may read the bytes before they are counted, and the transfers after
	}
	quick := func(body io.Reader) (int64, error) { return io.Copy(io.Discard, body) }
	return course{settings: map[string]any{"access.anonymous": []string{"jp"}}, history: func() []metricstest.Scene {
		d.publish("http://www.example.jp/", testBytes(size))
		fetch(quick)
		first := ended(1)
		fetch(quick)
		return []metricstest.Scene{{Minutes: 60, Metrics: first}, {Minutes: 12 * 60, Metrics: ended(2)}}
	}, cause: func() metricstest.Families {
		fetch(func(body io.Reader) (int64, error) {
			n := testkit.ReadSlowly(d, body, size, 5*time.Second)
			rest, err := io.Copy(io.Discard, body)
			return n + rest, err
		})
		return ended(3)
	}, cure: func() metricstest.Families {
		d.sheaf("transfers", "--running")
		fetch(quick)
		return ended(4)
	}}
}

// post sends a form or a document as a browser or a program does.
func (d *demo) post(path, kind, body, user, password string) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.url()+path, strings.NewReader(body))
	testkit.Must(d, err)
	req.Header.Set("Content-Type", kind)
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	testkit.Must(d, err)
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		text, _ := io.ReadAll(resp.Body) // for the message
		d.Fatalf("POST %s: %s %s", path, resp.Status, text)
	}
}

// askRemoval asks for the removal of a host, as its owner does.
func (d *demo) askRemoval() {
	d.Helper()
	d.post(removal.Path, "application/x-www-form-urlencoded", url.Values{
		"wish": {"removal"}, "kind": {"host"}, "target": {"www.example.jp"}, "email": {"owner@mail.example"}, "reason": {"it is ours"},
	}.Encode(), "", "")
}

func mailsFail(d *demo) course {
	at := testkit.Addresses(d, 1)[0]
	return course{settings: map[string]any{"watch.mail.server": at, "watch.mail.from": "archive@example.jp", "watch.mail.tls": "none"}, cause: func() metricstest.Families {
		d.sheaf("account", "add", "alice", "--password", "alice's password")
		d.post(api.PathWatches, "application/json", `{"host": "www.example.jp", "email": "alice@example.jp"}`, "alice", "alice's password")
		d.askRemoval()
		d.until(1, "sheaf_mails", "state", "failing")
		return d.until(1, "sheaf_watch_deliveries", "channel", "mail", "state", "failing")
	}, cure: func() metricstest.Families {
		server := mailtest.At(d, at)
		d.tell("cure", "the mail server works again")
		d.tell("time", "the next attempts come within half a minute")
		testkit.Until(d, "both mails", func() bool { return len(server.Letters()) >= 2 })
		d.until(0, "sheaf_mails", "state", "failing")
		return d.until(0, "sheaf_watch_deliveries", "channel", "mail", "state", "failing")
	}}
}

func removalUndecided(d *demo) course {
	return course{cause: func() metricstest.Families {
		d.askRemoval()
		d.tell("time", "its asker proved four days ago that the site is theirs")
		d.exec(`UPDATE removals SET state = 'proved'`)
		d.exec(`INSERT INTO removal_events (removal, n, at, by_whom, act, note) SELECT id, 9, ?, 'asker', 'proved', '' FROM removals`, db.Millis(time.Now().AddDate(0, 0, -4)))
		return d.until(1, "sheaf_removals", "state", "proved")
	}, cure: func() metricstest.Families {
		d.sheaf("removal", "ls", "--state", "proved")
		var list removal.RequestList
		testkit.Must(d, d.operator().Do(d.Context(), http.MethodGet, api.PathAdminRemovals, nil, &list))
		d.sheaf("removal", "grant", list.Requests[0].ID)
		return d.until(0, "sheaf_removals", "state", "proved")
	}}
}

func quorumLost(d *demo) course {
	const secret = "a secret of the servers of leases"
	address := testkit.Addresses(d, 1)[0]
	server := func() *quorum.Locker {
		l, err := net.Listen("tcp", address)
		testkit.Must(d, err)
		q, err := quorum.Open(quorum.Options{
			Options: lease.Options{TTL: 2 * time.Second}, Members: []string{address}, Secret: []byte(secret),
			Listener: l, Address: address, File: filepath.Join(d.dir, "leases.json"),
		})
		testkit.Must(d, err)
		d.Cleanup(func() { q.Close() })
		return q
	}
	running := server()
	settings := map[string]any{"lease.kind": "quorum", "lease.ttl": "2s", "lease.quorum.members": address, "lease.quorum.secret": secret}
	return course{settings: settings, cause: func() metricstest.Families {
		testkit.Must(d, running.Close())
		d.until(0, "sheaf_lease_held", "lease", "keeper")
		d.until(0, "sheaf_lease_held", "lease", "urls")
		return d.until(0, "sheaf_check_up", "check", "leases") // the page shows a result that is some seconds old
	}, cure: func() metricstest.Families {
		running = server()
		d.tell("cure", "the server of the quorum is started again")
		d.until(1, "sheaf_check_up", "check", "leases")
		d.until(1, "sheaf_lease_held", "lease", "keeper")
		return d.until(1, "sheaf_lease_held", "lease", "urls")
	}}
}

package service

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"sheaf/archive"
	"sheaf/ingest/inbox"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/servetest"
)

// libraryHosts are collected in the nights of sixNights.
var libraryHosts = []string{"www.kokubunji.ac.jp", "www.library.kokubunji.ac.jp", "www.city.kokubunji.tokyo.jp", "www.museum.example.jp", "www.press.example.jp",
	"www.festival.example.jp", "archive.press.example.jp", "www.shrine.example.jp", "www.railway.example.co.jp", "www.weather.example.jp", "www.theatre.example.or.jp", "www.river.example.go.jp"}

// libraryTitles are the titles of their home pages.
var libraryTitles = []string{"国分寺大学", "国分寺大学附属図書館", "国分寺市公式ウェブサイト", "Museum of Everyday Things", "The Kokubunji Press",
	"けやき祭り 2026", "The Press: back numbers", "八幡神社 — 行事のご案内", "Tama Light Railway", "今日の天気", "市民劇場 11 月の公演", "河川の水位"}

// sixNights returns a service with six nights behind it: six editions of twelve hosts, five robots
// of which one is silent and one has a full disk, transfers of each hour, a batch in the
// quarantine, and hosts that wait for a decision.
func sixNights(t *testing.T) *Service {
	t.Helper()
	site, today := servetest.New(t, nil), time.Now()
	for night := range 6 {
		day := today.AddDate(0, 0, night-5)
		hosts := make(map[string][]*archive.Record)
		for i, host := range libraryHosts {
			body := fmt.Sprintf(`<html><head><meta charset="utf-8"><title>%s</title></head><body style="font:17px/1.7 sans-serif;margin:0"><main style="margin:2em"><h1>%[1]s</h1><p>%s 更新。お知らせは %d 件です。</p><ul>`, libraryTitles[i], day.Format("1 月 2 日"), night+i+2)
			for n := range 20 + 7*((night*night+i)%(night+3)) {
				url := fmt.Sprintf("http://%s/news/%d.html", host, n)
				hosts[host] = append(hosts[host], servetest.Page(url, fmt.Sprintf("<title>News %d</title><p>as of night %d", n, night), day.Add(time.Duration(n+1)*time.Second)))
				if n < 4 {
					body += fmt.Sprintf(`<li><a href="%s">お知らせ %d</a></li>`, url, n+1)
				}
			}
			hosts[host] = append(hosts[host], servetest.Page("http://"+host+"/", body+"</ul></main></body></html>", day))
		}
		site.Publish(day.Format("20060102"), hosts)
	}
	s, err := New(t.Context(), testConfig(t, map[string]any{"data": filepath.Dir(site.Dir), "zone": "Asia/Tokyo", "publish.window": "12:00-13:00",
		"database.fresh": true, "site.name": "Kokubunji Web Archive", "site.name_ja": "国分寺ウェブアーカイブ", "access.anonymous": []string{"*"}}), slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	t.Cleanup(s.close)
	fillHistory(t, s)
	ms := today.UnixMilli()
	put := func(text string, args ...any) {
		t.Helper()
		_, err := s.state.db.ExecContext(t.Context(), text, args...)
		testkit.Must(t, err)
	}
	robots := []string{"chiba", "etl", "jaist", "keio", "waseda"}
	for i, name := range robots {
		seen := ms
		if name == "keio" {
			seen -= (5 * time.Hour).Milliseconds()
		}
		put(`INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash, version, service_key) SELECT ?, 1, 1, ?, 1, ?, '1.4.0', public FROM service_keys`, name, seen, []byte(name))
		put(`INSERT INTO heartbeats (robot, at, phase, generation, cycle, left_urls, rate, pages, bytes, ms, spool) VALUES (?, ?, 'collecting', 1, 6, ?, 0.4, ?, 70, 1, ?)`, name, seen, 900*i, 340+i*i*211, i*1_400_000)
	}
	put(`INSERT INTO robot_troubles (robot, kind, detail, since) VALUES ('jaist', 'disk', '3 MB are free, 512 MB are wanted', ?)`, ms-(2*time.Hour).Milliseconds())
	for i, host := range libraryHosts {
		put(`INSERT INTO hosts (name, state, source, created, grp) VALUES (?, 'accepted', '', ?, ?)`, host, ms, host)
		put(`INSERT INTO assignments (host, robot, from_generation) VALUES (?, ?, 1)`, host, robots[i%len(robots)])
		put(`INSERT INTO hosts (name, state, source, created, grp) VALUES (?, 'pending', 'waseda', ?, ?)`, "new."+host, ms, host)
	}
	for _, host := range libraryHosts[:2] {
		put(`INSERT INTO visits (host, robot, at, status, pages, bytes, why) VALUES (?, 'chiba', ?, 0, 0, 0, 'timeout')`, host, ms)
	}
	put(`UPDATE visits SET robot = (SELECT robot FROM assignments a WHERE a.host = visits.host)`)
	testkit.Must(t, inbox.NewLedger(s.state.db).Enter(t.Context(), &inbox.Batch{ID: "etl-20261128T030000Z-6", Batch: "etl-20261128T030000Z-6", Robot: "etl", Protocol: "http",
		State: wire.StateQuarantined, Reason: wire.ReasonHostNotAssigned, Detail: "www.elsewhere.example", Received: today, Entered: today.Add(-40 * time.Minute), Size: 1 << 20, Hosts: 3}))
	return s
}

// The pages have what an operator and a reader see after six nights, and docs/pictures shows them:
// SHEAF_TEST_PICTURES names the directory to which they are written (make pictures).
func TestPictures(t *testing.T) {
	testkit.Long(t)
	s := sixNights(t)
	server := httptest.NewServer(s.router)
	defer server.Close()
	ctx, dir := testkit.NewPage(t), os.Getenv("SHEAF_TEST_PICTURES")
	for _, p := range []struct {
		name, path, lang, theme, wait string
		width, height                 int64
		operator                      bool
	}{
		{"board", "/board/", "en", "light", ".wrong", 1440, 1500, true},
		{"board-ja", "/board/", "ja", "dark", ".wrong", 1440, 1500, true},
		{"transfers", "/board/transfers?by=hour", "en", "light", ".hits", 1440, 900, true},
		{"front", "/", "en", "light", ".hits", 1100, 1040, false},
		{"host", "/browse/jp/ac/kokubunji/library/www/", "en", "light", ".months", 1100, 1090, false},
		{"page", "/web/2/http://www.library.kokubunji.ac.jp/", "en", "light", "h1", 1100, 420, false},
	} {
		headers := network.Headers{"Authorization": ""}
		if p.operator {
			headers["Authorization"] = "Bearer " + s.OperatorToken()
		}
		var picture []byte
		testkit.Must(t, chromedp.Run(ctx, network.SetExtraHTTPHeaders(headers), chromedp.EmulateViewport(p.width, p.height),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: p.theme}}),
			chromedp.Navigate(server.URL+"/language/"+p.lang+"?back="+p.path), chromedp.WaitVisible(p.wait), chromedp.CaptureScreenshot(&picture)))
		if dir != "" {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, p.name+".png"), picture, 0o644))
		}
	}
}

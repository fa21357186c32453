//go:build ignore

// Command pack makes the demo's sites.zip.zst from a crawl corpus. It takes the hosts in sources,
// without files to which no page links, and makes the second day from the recorded changes.
//
//	go run pack.go CORPUS     where CORPUS holds sites/, days/ and LICENSES/
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/klauspost/compress/zstd"

	"sheaf/cmd/sheaf/demo/sites"
	"sheaf/internal/page"
)

type source struct {
	host, dir string
	seeds     []string
	home      string   // home page, if the corpus has none
	keep      []string // path prefixes
	days      []string // overlays that make the second day, in order
	licence   string
}

var sources = []source{
	{host: "www.boost.example.jp", dir: "www.boost.jp.test", seeds: []string{"/"}, licence: "www.boost.jp.test.txt",
		keep: []string{"/index.html", "/archive.html", "/boostcon.html", "/communities.html", "/cppnow", "/document.html", "/howtobuild.html",
			"/mailing-lists.html", "/study_meeting.html", "/the-team.html", "/tips.html", "/used_project.html", "/static/", "/rss.xml",
			"/tips/iterator", "/tips/s", "/document/version/1_9", "/archive/boost_docs/libs/pool/", "/archive/boost_docs/libs/smart_ptr/"},
		days: []string{"0015", "0022", "0023", "0024", "0028", "0041"}},
	{host: "jlha.example.jp", dir: "jlha.jp.test", seeds: []string{"/", "/api/index.html"}, keep: []string{"/api/"}, licence: "jlha.jp.test.copyright",
		home: home("ja", "LHA Library for Java", "Java で LZH 形式の書庫を読み書きするライブラリです。", "/api/index.html", "API 仕様")},
	{host: "mecab.example.jp", dir: "mecab.jp.test", seeds: []string{"/", "/index.html"}, keep: []string{"/"}, licence: "mecab.jp.test.copyright"},
	{host: "w3m.example.ac.jp", dir: "w3m.jp.test", seeds: []string{"/", "/ja/"}, keep: []string{"/ja/"}, licence: "w3m.jp.test.copyright",
		home: home("ja", "w3m", "端末で動くテキストブラウザです。", "/ja/", "日本語の文書")},
	{host: "im.example.ac.jp", dir: "im.jp.test", seeds: []string{"/"}, keep: []string{"/html/", "/manual/", "/00"}, licence: "im.jp.test.copyright"},
	{host: "charset.example.org", dir: "charset.test", seeds: []string{"/"}, keep: []string{"/html/", "/text/"}, licence: "charset.test.BSD"},
	{host: "httpd.example.com", dir: "httpd.test", seeds: []string{"/", "/manual/ko/"}, keep: []string{"/manual/ko/", "/manual/style/"}, licence: "httpd.test.copyright",
		home: home("ko", "Apache HTTP Server", "웹 서버의 설명서입니다.", "/manual/ko/", "한국어 설명서")},
}

// home returns a home page that links to the part of the site in the corpus.
func home(lang, title, about, path, name string) string {
	return fmt.Sprintf("<!DOCTYPE html>\n<html lang=%q>\n<meta charset=\"utf-8\">\n<title>%[2]s</title>\n<h1>%[2]s</h1>\n<p>%s\n<ul>\n<li><a href=%q>%s</a>\n</ul>\n",
		lang, title, about, path, name)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run pack.go CORPUS")
	}
	corpus := os.Args[1]
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	put := func(name string, body []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)})
		check(err)
		_, err = w.Write(body)
		check(err)
	}
	var seeds []string
	var pages [2][]string
	for _, s := range sources {
		tree := s.files(corpus)
		pages[0] = append(pages[0], prune(s, tree)...)
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			put("day1/"+s.host+name, tree[name])
		}
		changed := s.change(corpus, tree)
		for _, name := range slices.Sorted(maps.Keys(changed)) {
			put("day2/"+s.host+name, tree[name])
		}
		urls, _ := reach(s, 1, tree)
		pages[1] = append(pages[1], urls...)
		for _, seed := range s.seeds {
			seeds = append(seeds, (&url.URL{Scheme: "http", Host: s.host, Path: seed}).String())
		}
		licence, err := os.ReadFile(filepath.Join(corpus, "LICENSES", s.licence))
		check(err)
		put(path.Join("LICENSES", s.host), licence)
		log.Printf("%-24s %4d files, %d changed on day 2", s.host, len(tree), len(changed))
	}
	put("seeds.txt", []byte(strings.Join(seeds, "\n")+"\n"))
	for i := range pages {
		put(fmt.Sprintf("pages%d.txt", i+1), []byte(strings.Join(pages[i], "\n")+"\n"))
	}
	check(z.Close())
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(16<<20))
	check(err)
	packed := e.EncodeAll(buf.Bytes(), nil)
	check(os.WriteFile("../sites.zip.zst", packed, 0o644))
	log.Printf("sites.zip.zst: %d bytes, %d and %d pages", len(packed), len(pages[0]), len(pages[1]))
}

// files returns the kept files of the source's first day, by path.
func (s source) files(corpus string) map[string][]byte {
	tree := map[string][]byte{}
	root := filepath.Join(corpus, "sites", s.dir)
	check(filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(root, p)
		check(rerr)
		url := "/" + filepath.ToSlash(rel)
		if err != nil || d.IsDir() || !s.keeps(url) || strings.HasSuffix(url, ".gz") {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 { // a second copy of a page, at another path
			return nil
		}
		tree[url], err = os.ReadFile(p)
		return err
	}))
	if s.home != "" {
		tree["/index.html"] = []byte(s.home)
	}
	return tree
}

// prune removes the files to which no link leads and returns the URLs that are left.
func prune(s source, tree map[string][]byte) []string {
	for { // again and again, because removing files changes the listings of directories
		urls, files := reach(s, 1, tree)
		before := len(tree)
		maps.DeleteFunc(tree, func(name string, _ []byte) bool { return !files[name] })
		if len(tree) == before {
			return urls
		}
	}
}

// change turns tree into the tree of the second day, and returns the paths of the files that
// differ.
func (s source) change(corpus string, tree map[string][]byte) map[string]bool {
	changed := map[string]bool{}
	for _, day := range s.days {
		for name := range tree {
			body, err := os.ReadFile(filepath.Join(corpus, "days", s.dir, day, filepath.FromSlash(name)))
			if err == nil && !bytes.Equal(body, tree[name]) {
				tree[name], changed[name] = body, true
			}
		}
	}
	return changed
}

// reach follows the links of a host's pages from its seeds. It returns the URLs that answer, and
// the names of the files that they show.
func reach(s source, day int, tree map[string][]byte) (urls []string, files map[string]bool) {
	mem := fstest.MapFS{"seeds.txt": {}, "pages1.txt": {}, "pages2.txt": {}}
	for name, body := range tree {
		mem["day1/"+s.host+name] = &fstest.MapFile{Data: body}
	}
	web, err := sites.Open(mem)
	check(err)
	files = map[string]bool{}
	seen := map[string]bool{}
	var queue []string
	push := func(u string) {
		if !seen[u] {
			seen[u] = true
			queue = append(queue, u)
		}
	}
	for _, seed := range s.seeds {
		push("http://" + s.host + seed)
	}
	for len(queue) > 0 {
		u, err := url.Parse(queue[0])
		at := queue[0]
		queue = queue[1:]
		if err != nil || u.Host != s.host {
			continue
		}
		body, name, err := web.Body(day, s.host, u.Path)
		if err != nil {
			if _, _, err := web.Body(day, s.host, u.Path+"/"); err == nil {
				push(at + "/")
			}
			continue
		}
		urls = append(urls, at)
		files["/"+name] = true
		linked, err := page.Links(body, sites.ContentType(name), at)
		check(err)
		for _, l := range linked.Links {
			push(l.URL)
		}
	}
	slices.Sort(urls)
	return urls, files
}

func (s source) keeps(url string) bool {
	return slices.ContainsFunc(s.keep, func(p string) bool { return strings.HasPrefix(url, p) })
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

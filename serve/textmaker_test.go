package serve_test

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// textRow has the columns of texts.parquet that these tests look at.
type textRow struct {
	URL      string `parquet:"url"`
	Title    string `parquet:"title,optional"`
	Text     string `parquet:"text,optional"`
	Language string `parquet:"language,optional"`
	Charset  string `parquet:"content_charset,optional"`
	SimHash  uint64 `parquet:"simhash,optional"`
	Reason   string `parquet:"text_reason,optional"`
	Version  int32  `parquet:"text_version"`
}

// texter returns a maker of texts.
func (s *tableSite) texter(days int) *results.TableMaker {
	return results.NewTextMaker(results.TableOptions{
		Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: lease.NewDB(s.DB, nil, lease.Options{}), Days: days, Every: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
}

func (s *tableSite) texts(a *account.Account, path string) []textRow {
	s.t.Helper()
	data := s.read(a, path)
	if data == nil {
		return nil
	}
	rows, err := parquet.Read[textRow](bytes.NewReader(data), int64(len(data)))
	testkit.Must(s.t, err)
	return rows
}

// wet returns a WET file as text.
func (s *tableSite) wet(a *account.Account, path string) string {
	s.t.Helper()
	data := s.read(a, path)
	if data == nil {
		return ""
	}
	in, err := gzip.NewReader(bytes.NewReader(data))
	testkit.Must(s.t, err)
	text, err := io.ReadAll(in)
	testkit.Must(s.t, err)
	return string(text)
}

const sjis = "\x93\xfa\x96{\x8c\xea\x82\xcc\x83y\x81[\x83W\x82\xc5\x82\xb7\x81B" // 日本語のページです。

// The volumes of a day and the hosts have the texts of their pages, in two forms. They go with what
// is taken down.
func TestTexts(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	secret := "http://www.text.jp/secret/a"
	s.Publish("20261121", map[string][]*archive.Record{"www.text.jp": {
		servetest.Page("http://www.text.jp/", "<title>\x91\xe8</title><p><a href=/>menu</a><h1>x</h1><p>"+strings.Repeat(sjis, 3), dayOne.AddDate(0, 0, 1)),
		servetest.Page(secret, "<title>secret</title><p>This is what the owner of the site wants to be gone.", dayOne.AddDate(0, 0, 1)),
		servetest.Answer("http://www.text.jp/none", 404, dayOne.AddDate(0, 0, 1)),
	}})
	const volume, host = "/days/20261121/jp/00001.", "/jp/text/www/20261121."
	if s.texts(everyone, volume+"texts.parquet") != nil {
		t.Fatal("there are texts that nobody made")
	}
	m := s.texter(1)
	s.update(m)
	s.fresh()
	for _, of := range []string{volume, host} {
		rows := s.texts(everyone, of+"texts.parquet")
		if len(rows) != 2 || rows[0].Title != "題" || rows[0].Text != "x\n"+strings.Repeat("日本語のページです。", 3) || rows[0].Language != "ja" || rows[0].Charset != "Shift_JIS" || rows[0].SimHash == 0 || rows[0].Version == 0 {
			t.Errorf("%s has %+v", of, rows)
		}
		wet := s.wet(everyone, of+"wet.gz")
		for _, part := range []string{"WARC/1.1\r\nWARC-Type: warcinfo", "WARC-Type: conversion\r\nWARC-Target-URI: http://www.text.jp/\r\n", "WARC-Refers-To: <urn:uuid:",
			"WARC-Identified-Content-Language: jpn\r\nContent-Type: text/plain\r\n", "\r\n\r\n題\nx\n日本語", secret} {
			if !strings.Contains(wet, part) {
				t.Errorf("%swet.gz lacks %q: %s", of, part, wet)
			}
		}
	}
	manifest := string(s.read(everyone, "/days/20261121/jp/MANIFEST"))
	if !strings.Contains(manifest, `"00001.texts.parquet"`) || !strings.Contains(manifest, `"00001.wet.gz"`) {
		t.Errorf("the MANIFEST lacks texts: %s", manifest)
	}

	was := s.stat(host + "wet.gz")
	_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www.text.jp", URLPrefix: "http://www.text.jp/secret/", Reason: "asked", By: "op"})
	testkit.Must(t, err)
	if s.texts(everyone, volume+"texts.parquet") != nil || s.wet(everyone, volume+"wet.gz") != "" {
		t.Error("texts of what was taken down are still there")
	}
	if is := s.stat(host + "wet.gz"); is == was {
		t.Error("the host's texts have the ETag of before")
	}
	s.update(m)
	s.fresh()
	for _, of := range []string{volume, host} {
		if rows := s.texts(everyone, of+"texts.parquet"); len(rows) != 1 || rows[0].URL == secret {
			t.Errorf("%s still has %+v", of, rows)
		}
		if wet := s.wet(everyone, of+"wet.gz"); !strings.Contains(wet, "日本語") || strings.Contains(wet, "secret") {
			t.Errorf("%s still has %s", of, wet)
		}
	}
	if keys := s.keys(); strings.Count(keys, "texts.parquet") != 1 || strings.Count(keys, "wet.gz") != 1 {
		t.Errorf("stored are %s", keys)
	}
}

// Texts of an older extraction are seen until those of this one are made. Texts of answers that are
// no pages of a robot's, such as imported ones, are there, too, and bad pages have a reason.
func TestTextsAreMadeAgain(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	gone := servetest.Page("http://www.text.jp/gone", "<title>Gone</title>", dayOne.AddDate(0, 0, 1))
	gone.Kind, gone.HTTP = archive.Response, []byte("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n")
	s.Publish("20261121", map[string][]*archive.Record{"www.text.jp": {gone}})
	s.update(s.texter(1))
	const path = "/days/20261121/jp/00001.texts.parquet"
	rows := s.texts(everyone, path)
	if len(rows) != 1 || rows[0].Title != "Gone" || rows[0].Text != "" || rows[0].Reason != "no text" {
		t.Errorf("%+v", rows)
	}
	data, old := s.read(everyone, path), ""
	for key := range strings.SplitSeq(s.keys(), "\n") {
		if strings.HasSuffix(key, "texts.parquet") {
			testkit.Must(t, s.Store.Delete(t.Context(), key))
			version := strings.LastIndex(key, "-V")
			old = key[:version] + strings.TrimLeft(key[version:], "-V0123456789")
			testkit.Must(t, s.Store.Put(t.Context(), old, bytes.NewReader(data), int64(len(data))))
		}
	}
	s.fresh()
	if !bytes.Equal(s.read(everyone, path), data) {
		t.Error("the texts of before are not to be seen")
	}
	s.update(s.texter(1))
	s.fresh()
	if keys := s.keys(); !bytes.Equal(s.read(everyone, path), data) || strings.Count(keys, "texts.parquet") != 1 || strings.Contains(keys, old) {
		t.Errorf("stored are %s", keys)
	}
}

func (s *tableSite) stat(path string) string {
	s.t.Helper()
	n, err := s.Library.Tree.Stat(s.t.Context(), everyone, path)
	testkit.Must(s.t, err)
	return n.ETag
}

package serve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

const volumesDir = "/days/20261120/jp"

// newVolumes publishes an edition whose volumes of jp have a few hosts each, and returns its hosts
// in the order of the tree.
func newVolumes(t *testing.T) (*servetest.Site, *reading.Library, []string) {
	s := servetest.New(t, nil)
	batch := make(map[string][]*archive.Record)
	add := func(host string) {
		for _, path := range []string{"", "secret/a", "secret/b", "c"} {
			batch[host] = append(batch[host], servetest.Page("http://"+host+"/"+path, host+strings.Repeat(path, 300), dayOne))
		}
	}
	for i := range 12 {
		add(fmt.Sprintf("www.u%02d.ac.jp", i))
		add(fmt.Sprintf("www.n%02d.ne.jp", i))
	}
	for _, host := range []string{"www.u00.ac.jp:8080", "ac-x.jp", "example.com", "example.jpx", "jp-x"} {
		add(host)
	}
	s.Publish("20261120", batch)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, Volume: 12 << 10})
	testkit.Must(t, err)
	var hosts []string
	for host := range batch {
		if strings.HasSuffix(strings.TrimSuffix(host, ":8080"), ".jp") {
			hosts = append(hosts, host)
		}
	}
	slices.SortFunc(hosts, func(a, b string) int { return strings.Compare(catalog.Key(a), catalog.Key(b)) })
	return s, lib, hosts
}

// volumeLines reads the list of a volume.
func volumeLines(t *testing.T, l *reading.Library, a *account.Account, name string) (lines []library.VolumeLine) {
	t.Helper()
	for line := range bytes.Lines(read(t, l, a, name+".jsonl")) {
		var v library.VolumeLine
		testkit.Must(t, json.Unmarshal(line, &v))
		lines = append(lines, v)
	}
	return lines
}

// volumeHosts returns the hosts of all volumes in a directory, as listed, by volume.
func volumeHosts(t *testing.T, l *reading.Library, a *account.Account, dir string) (hosts []string, byVolume map[string][]string) {
	t.Helper()
	byVolume = make(map[string][]string)
	for _, name := range names(t, l, a, dir) {
		volume, ok := strings.CutSuffix(name, ".jsonl")
		if !ok {
			continue
		}
		for _, line := range volumeLines(t, l, a, dir+"/"+volume) {
			hosts, byVolume[volume] = append(hosts, line.Host), append(byVolume[volume], line.Host)
		}
	}
	return hosts, byVolume
}

// The volumes of a domain have each of its hosts once, where their lists say, as the hosts' own
// files have it; any range of them can be read.
func TestVolumes(t *testing.T) {
	_, lib, hosts := newVolumes(t)
	if got := strings.Join(names(t, lib, everyone, "/days/20261120"), " "); got != "com/ jp/ jp-x/ jpx/" {
		t.Error(got)
	}
	listed, byVolume := volumeHosts(t, lib, everyone, volumesDir)
	if !slices.Equal(listed, hosts) || len(byVolume) < 4 {
		t.Errorf("%d volumes have %q, want %q", len(byVolume), listed, hosts)
	}
	random := testkit.Random(t)
	for volume := range byVolume {
		name := volumesDir + "/" + volume
		warc, tgz := read(t, lib, everyone, name+".warc.gz"), read(t, lib, everyone, name+".tar.gz")
		var bodies []string
		for _, line := range volumeLines(t, lib, everyone, name) {
			part := warc[line.WARC.Offset:][:line.WARC.Length]
			if line.WARC.SHA256 != servetest.SHA256(part) || !bytes.Equal(part, read(t, lib, everyone, "/"+line.Path+"/20261120.warc.gz")) {
				t.Errorf("%s: %s has other records in the volume", name, line.Host)
			}
			own := read(t, lib, everyone, "/"+line.Path+"/20261120.members.tar.gz")
			part = append(slices.Clone(tgz[line.Tar.Offset:][:line.Tar.Length]), archive.EndMember(0, 0)...)
			want := maps.Clone(members(t, own))
			maps.DeleteFunc(want, func(name, _ string) bool { return strings.Contains(name, "/_meta/") })
			if got := members(t, part); !maps.Equal(got, want) {
				t.Errorf("%s: %s has other files in the volume", name, line.Host)
			}
			bodies = append(bodies, pages(t, own)...)
		}
		if got := pages(t, tgz); !slices.Equal(got, bodies) {
			t.Errorf("%s: %d pages in the volume, %d in the hosts' files", name, len(got), len(bodies))
		}
		for suffix, data := range map[string][]byte{".warc.gz": warc, ".tar.gz": tgz} {
			f, err := lib.Tree.Open(t.Context(), everyone, name+suffix)
			testkit.Must(t, err)
			for range 50 {
				off := random.Int64N(f.Size)
				n := random.Int64N(f.Size - off)
				if got := readRange(t, f, off, n); got != string(data[off:off+n]) {
					t.Errorf("%s%s: %d bytes at %d differ", name, suffix, n, off)
				}
			}
			testkit.Must(t, f.Close())
		}
	}
	for _, path := range []string{"/00000.tar.gz", "/1.tar.gz", "/00099.tar.gz", "/00001.zip", "/00001", "/x/00001.tar.gz", "/ac/u0"} {
		if n, err := lib.Tree.Stat(t.Context(), everyone, volumesDir+path); !errors.Is(err, library.ErrNotFound) {
			t.Errorf("%s: %+v, %v", path, n, err)
		}
	}
}

// A domain below has volumes of its own. An account gets what it may see of a volume, which has the
// same number for all.
func TestVolumesWithinScope(t *testing.T) {
	s, lib, hosts := newVolumes(t)
	ofAC := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return !strings.HasSuffix(strings.TrimSuffix(h, ":8080"), ".ac.jp") })
	if got, _ := volumeHosts(t, lib, everyone, volumesDir+"/ac"); !slices.Equal(got, ofAC) {
		t.Errorf("ac.jp has %q, want %q", got, ofAC)
	}
	_, all := volumeHosts(t, lib, everyone, volumesDir)
	for domains, want := range map[string][]string{
		"ac.jp": ofAC, "ne.jp example.com": slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return !strings.HasSuffix(h, ".ne.jp") }),
		"www.u00.ac.jp": {"www.u00.ac.jp", "www.u00.ac.jp:8080"},
	} {
		a := s.Account("a"+servetest.SHA256([]byte(domains))[:4], "always", strings.Fields(domains)...)
		got, byVolume := volumeHosts(t, lib, a, volumesDir)
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %q, want %q", domains, got, want)
		}
		for volume, hosts := range byVolume {
			for _, host := range hosts {
				if !slices.Contains(all[volume], host) {
					t.Errorf("%s: %s is in %s, but not for all", domains, host, volume)
				}
			}
		}
	}
	com := s.Account("com", "always", "example.com")
	if n, err := lib.Tree.Stat(t.Context(), com, volumesDir); !errors.Is(err, library.ErrNotFound) {
		t.Errorf("an account of another domain sees %+v, %v", n, err)
	}
}

// What is taken down leaves its volume, which gets another ETag. All others stay as they are, and
// numbers too, even if nothing is left of one.
func TestVolumesAndTakeDown(t *testing.T) {
	s, lib, hosts := newVolumes(t)
	_, before := volumeHosts(t, lib, everyone, volumesDir)
	modified := make(map[string]time.Time)
	tags := func() map[string]string {
		of := make(map[string]string)
		for n, err := range lib.Tree.List(t.Context(), everyone, volumesDir) {
			testkit.Must(t, err)
			of[n.Name], modified[n.Name] = n.ETag, n.Modified
		}
		return of
	}
	was := tags()
	const emptied, wholly, partly = "00001", "00003", "00004"
	stones := []catalog.Tombstone{
		{Host: before[wholly][0], Reason: "asked", By: "op"},
		{Host: before[partly][0], URLPrefix: "http://" + before[partly][0] + "/secret/", Reason: "asked", By: "op"},
	}
	for _, host := range before[emptied] {
		stones = append(stones, catalog.Tombstone{Host: host, Reason: "asked", By: "op"})
	}
	later, err := catalog.Open(t.Context(), s.Store, catalog.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	testkit.Must(t, err)
	_, err = later.Remove(t.Context(), stones...)
	testkit.Must(t, err)

	published := modified["00002.tar.gz"]
	now := tags()
	for name, tag := range was {
		volume, suffix, _ := library.CutVolume(name)
		changes := volume == emptied || volume == wholly || volume == partly && suffix != "" || name == library.Manifest
		switch got, there := now[name]; {
		case there == (volume == emptied):
			t.Errorf("%s is listed: %t", name, there)
		case there && (got != tag) != changes:
			t.Errorf("%s had the ETag %s and has %s", name, tag, got)
		case there && modified[name].After(published) != changes:
			t.Errorf("%s was modified at %v", name, modified[name])
		}
	}
	left, after := volumeHosts(t, lib, everyone, volumesDir)
	if len(left) != len(hosts)-1-len(before[emptied]) || slices.Contains(after[wholly], before[wholly][0]) {
		t.Errorf("%q are left of %q", left, hosts)
	}
	for _, body := range pages(t, read(t, lib, everyone, volumesDir+"/"+partly+".tar.gz")) {
		if strings.HasPrefix(body, before[partly][0]+"secret") {
			t.Errorf("%.40s… is taken down", body)
		}
	}
	if got, want := len(pages(t, read(t, lib, everyone, volumesDir+"/"+partly+".tar.gz"))), 4*len(before[partly])-2; got != want {
		t.Errorf("%d pages are left, want %d", got, want)
	}
	if _, err := lib.Tree.Stat(t.Context(), everyone, volumesDir+"/"+emptied+".warc.gz"); !errors.Is(err, library.ErrNotFound) {
		t.Error(err)
	}
}

// Tar programs read a volume to its end, and unpack each host into a folder of its own.
func TestTarReadsVolumes(t *testing.T) {
	testkit.Slow(t)
	_, lib, _ := newVolumes(t)
	const volume = volumesDir + "/00002"
	name := filepath.Join(t.TempDir(), "volume.tar.gz")
	testkit.Must(t, os.WriteFile(name, read(t, lib, everyone, volume+".tar.gz"), 0o600))
	want := len(pages(t, read(t, lib, everyone, volume+".tar.gz")))
	for _, program := range [][]string{
		{"tar", "tzf", name}, {"bsdtar", "tzf", name},
		{"python3", "-c", "import sys, tarfile; print('\\n'.join(tarfile.open(sys.argv[1]).getnames()))", name},
	} {
		t.Run(program[0], func(t *testing.T) {
			out := testkit.Run(t, t.TempDir(), program[0], program[1:]...)
			folders, files := make(map[string]bool), 0
			for line := range strings.Lines(out) {
				folder, _, _ := strings.Cut(line, "/")
				folders[folder] = true
				if !strings.Contains(line, "/_meta/") {
					files++
				}
			}
			if hosts := len(volumeLines(t, lib, everyone, volume)); len(folders) != hosts || files != want {
				t.Errorf("%d folders and %d files, want %d and %d", len(folders), files, hosts, want)
			}
		})
	}
}

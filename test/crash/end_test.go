package crash

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// checkEnd checks what must hold in the end, whatever happened before. It looks at the running
// service as its users do, kills it, and looks at what is left on disk.
func (h *installation) checkEnd(sheaf string, batches []*madeBatch) {
	h.t.Helper()
	h.checkBuffers(batches)
	h.checkDownloads(batches)
	h.kill()
	h.checkCatalog(batches)
	report := h.fsck(sheaf)
	if good := published(batches); report.Batches != int64(len(good)) || report.Segments != report.Verified {
		h.t.Errorf("fsck finds %d batches of %d, and verified %d of %d segments", report.Batches, len(good), report.Verified, report.Segments)
	}
}

func published(batches []*madeBatch) []*madeBatch {
	return slices.DeleteFunc(slices.Clone(batches), func(c *madeBatch) bool { return c.bad })
}

// checkBuffers waits until collection has emptied the buffers. Only bad batches may stay, in the
// quarantine and as they were sent, and no temporary file anywhere.
func (h *installation) checkBuffers(batches []*madeBatch) {
	h.t.Helper()
	buffers := filepath.Join(h.data, "buffers")
	testkit.Eventually(h.t, "the buffers are emptied", func() error {
		if left := append(names(h.t, buffers+"/batches"), names(h.t, buffers+"/receive")...); len(left) > 0 {
			return fmt.Errorf("there is still %s", left)
		}
		return nil
	})
	kept := names(h.t, buffers+"/quarantine")
	for _, c := range batches {
		if c.bad && h.settings["uploads.accepted"] == "store" {
			h.checkStored(c)
			continue
		}
		dir := filepath.Join(buffers, "quarantine", string(c.ID))
		at := slices.Index(kept, dir)
		switch {
		case at < 0 && c.bad:
			h.t.Errorf("the bad batch %s is not in the quarantine", c.ID)
		case at >= 0 && !c.bad:
			h.t.Errorf("batch %s is in the quarantine", c.ID)
		case at >= 0:
			kept = slices.Delete(kept, at, at+1)
			for name, want := range map[string][]byte{"batch.tar.gz": c.Data, "manifest": c.Signed} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
					h.t.Errorf("the quarantine has %d bytes of %s's %s, %v; sent were %d", len(got), c.ID, name, err, len(want))
				}
			}
		}
	}
	if len(kept) > 0 {
		h.t.Errorf("in the quarantine lies what nobody sent: %s", kept)
	}
	// The service that runs has some for moments, such as while it indexes what it has published.
	testkit.Eventually(h.t, "no temporary file is left", func() error {
		temp := names(h.t, filepath.Join(h.data, "store", ".tmp"))
		if len(temp) != 1 {
			return fmt.Errorf("the store's temporary directories are %s; only this life's may be there", temp)
		}
		if left := names(h.t, temp[0]); len(left) > 0 {
			return fmt.Errorf("in the store's temporary directory lies %s", left)
		}
		return filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, ".new")) && filepath.Base(path) != ".tmp" {
				return fmt.Errorf("%s was left by a life before", path)
			}
			return err
		})
	})
}

// checkStored checks that the store has a bad batch as it was sent. It may have it twice: from an
// attempt that was interrupted, until a day later.
func (h *installation) checkStored(c *madeBatch) {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.data, "store", "incoming", string(c.ID)+"-*.tar.gz"))
	testkit.Must(h.t, err)
	if len(files) == 0 {
		h.t.Errorf("the bad batch %s is not in the store", c.ID)
	}
	for _, name := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, c.Data) {
			h.t.Errorf("%s has %d bytes, %v; sent were %d", name, len(got), err, len(c.Data))
		}
	}
}

// checkDownloads fetches all of every host, by HTTP and by FTP, and compares it with what was
// uploaded: every page once, byte for byte. If hosts are named, it checks only these.
func (h *installation) checkDownloads(batches []*madeBatch, only ...string) {
	h.t.Helper()
	h.checkPages(batches, only...)
	for _, c := range published(batches) {
		h.checkMembers(c, only)
	}
}

// checkPages is checkDownloads without what only an operator can ask.
func (h *installation) checkPages(batches []*madeBatch, only ...string) {
	h.t.Helper()
	want := map[string]map[string][]byte{} // by host and name in the tar
	for _, c := range published(batches) {
		for _, p := range c.pages {
			if len(only) > 0 && !slices.Contains(only, p.host) {
				continue
			}
			if want[p.host] == nil {
				want[p.host] = map[string][]byte{}
			}
			want[p.host][naming.FileName(p.host, p.url)] = p.body
		}
	}
	conn, err := ftp.Dial(h.Download, ftp.DialWithTimeout(testkit.Patience))
	testkit.Must(h.t, err)
	defer conn.Quit()
	testkit.Must(h.t, conn.Login("anonymous", "test@example.jp"))
	for host, pages := range want {
		path := "/" + naming.HostPath(host) + "/all.tar.gz"
		r, err := conn.Retr(path)
		testkit.Must(h.t, err)
		data, err := io.ReadAll(r)
		testkit.Must(h.t, errors.Join(err, r.Close()))
		h.comparePages("ftp", host, data, pages)
		h.comparePages("http", host, h.get("/pub"+path), pages)
	}
}

// checkMembers fetches each host's part of a batch in the form in which it was sent, and compares
// the bytes.
func (h *installation) checkMembers(c *madeBatch, only []string) {
	h.t.Helper()
	var row struct{ Edition string }
	testkit.Must(h.t, h.operate(http.MethodGet, "/v1/admin/batches/"+string(c.ID), nil, &row))
	for i, host := range c.Manifest.Hosts {
		if len(only) > 0 && !slices.Contains(only, host.Name) {
			continue
		}
		if got := h.get("/a/" + host.Name + "/" + row.Edition + ".members.tar.gz"); !bytes.Contains(got, c.Range(i)) {
			h.t.Errorf("edition %s of %s has not the %d bytes that batch %s brought", row.Edition, host.Name, host.Length, c.ID)
		}
	}
}

func (h *installation) get(path string) []byte {
	h.t.Helper()
	resp := h.ask(http.MethodGet, path, nil, nil, nil)
	data, err := io.ReadAll(resp.Body)
	testkit.Must(h.t, err)
	return data
}

func (h *installation) comparePages(protocol, host string, tarGz []byte, want map[string][]byte) {
	h.t.Helper()
	n, err := pagesOf(tarGz, want)
	if err != nil {
		h.t.Errorf("%s %s: %v", protocol, host, err)
	}
	if n != len(want) {
		h.t.Errorf("%s %s: %d pages of %d that were sent", protocol, host, n, len(want))
	}
}

// pagesOf counts the pages in an archive. Each must be one of those that were sent, with its bytes,
// and there once.
func pagesOf(tarGz []byte, sent map[string][]byte) (n int, err error) {
	z, err := gzip.NewReader(bytes.NewReader(tarGz))
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for files := tar.NewReader(z); ; {
		f, err := files.Next()
		if err == io.EOF {
			return len(seen), nil
		}
		if err != nil {
			return len(seen), err
		}
		body, err := io.ReadAll(files)
		if err != nil {
			return len(seen), err
		}
		switch page, ok := sent[f.Name]; {
		case strings.Contains(f.Name, "/_meta/"):
		case !ok:
			return len(seen), fmt.Errorf("%s was never sent", f.Name)
		case seen[f.Name]:
			return len(seen), fmt.Errorf("%s is there twice", f.Name)
		case !bytes.Equal(body, page):
			return len(seen), fmt.Errorf("%s has other bytes than were sent", f.Name)
		default:
			seen[f.Name] = true
		}
	}
}

// checkCatalog reads the catalog from the store, as another node would. Each batch must be in one
// version, with each of its hosts once.
func (h *installation) checkCatalog(batches []*madeBatch) {
	h.t.Helper()
	objects, err := store.OpenFS(filepath.Join(h.data, "store"))
	testkit.Must(h.t, err)
	defer objects.Close()
	h.checkCatalogIn(objects, batches)
}

func (h *installation) checkCatalogIn(objects store.Store, batches []*madeBatch) {
	h.t.Helper()
	c, err := catalog.Open(h.t.Context(), objects, catalog.Options{})
	testkit.Must(h.t, err)
	s, err := c.Pin(h.t.Context())
	testkit.Must(h.t, err)
	defer s.Release()
	lines := map[string][]catalog.SegmentEntry{} // by batch
	hosts, err := s.Hosts(h.t.Context(), "", "", 0)
	testkit.Must(h.t, err)
	for _, info := range hosts {
		list, err := s.Host(h.t.Context(), info.Host)
		testkit.Must(h.t, err)
		for _, l := range list {
			lines[l.Batch] = append(lines[l.Batch], l)
		}
	}
	for _, c := range published(batches) {
		v, ok, err := s.Batch(h.t.Context(), string(c.ID))
		if err != nil || !ok {
			h.t.Errorf("batch %s is not in the catalog: %v", c.ID, err)
		}
		if fault := whole(c, lines[string(c.ID)]); fault != nil {
			h.t.Errorf("version %d: %v", v.N, fault)
		}
		delete(lines, string(c.ID))
	}
	for id, list := range lines {
		h.t.Errorf("%d lines of batch %s are public; it should not be", len(list), id)
	}
}

// whole returns what is wrong with the public entries of a batch. They must be of one version, each
// host of the batch once, and no other.
func whole(c *madeBatch, lines []catalog.SegmentEntry) error {
	var want, got []string
	for _, host := range c.Manifest.Hosts {
		want = append(want, host.Name)
	}
	for _, l := range lines {
		got = append(got, l.Host)
		if l.Edition != lines[0].Edition || l.BatchSHA256 != c.Manifest.SHA256 {
			return fmt.Errorf("batch %s of SHA-256 %s: line of %s is of edition %s, another of %s, the digest %s",
				c.ID, c.Manifest.SHA256, l.Host, l.Edition, lines[0].Edition, l.BatchSHA256)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("batch %s of hosts %q is public with %q", c.ID, want, got)
	}
	return nil
}

// fsck runs the operator's command on the data of the killed service. It must find no fault.
func (h *installation) fsck(sheaf string, settings ...string) (report catalog.Report) {
	h.t.Helper()
	out, err := exec.Command(sheaf, append([]string{"fsck", "--deep", "--json", "--data", h.data}, settings...)...).Output()
	if err != nil {
		h.t.Fatalf("sheaf fsck: %v\n%s", err, out)
	}
	testkit.Must(h.t, json.Unmarshal(out, &report))
	return report
}

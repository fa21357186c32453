package whole

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/ingest/accept"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// bringFiles imports a tree of files as a collection.
func (h *withdrawer) bringFiles(of wire.Collection, files map[string]string) error {
	h.Helper()
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	for name, text := range files {
		testkit.Must(h, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := io.WriteString(w, text)
		testkit.Must(h, err)
	}
	testkit.Must(h, w.Close())
	return h.bringFile(of, "tree.tar", tree.Bytes())
}

// bringFile imports a file, into a collection if it has a name, and waits until it is published.
func (h *withdrawer) bringFile(of wire.Collection, name string, data []byte) error {
	h.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if of.Name != "" {
		text, err := json.Marshal(of)
		testkit.Must(h, err)
		testkit.Must(h, form.WriteField("collection", string(text)))
	}
	part, err := form.CreateFormFile("file", name)
	testkit.Must(h, err)
	_, err = part.Write(data)
	testkit.Must(h, err)
	testkit.Must(h, form.Close())
	var done accept.Imported
	if err := h.admin.Send(h.Context(), http.MethodPost, api.PathAdminImports, form.FormDataContentType(), &body, &done); err != nil {
		return err
	}
	testkit.Until(h, "the import is published", func() bool {
		h.operate(http.MethodPost, api.PathAdminPublish, nil, nil)
		var b struct{ State wire.State }
		h.operate(http.MethodGet, path.Join(api.PathAdminBatches, string(done.Batch)), nil, &b)
		return b.State == wire.StatePublished
	})
	return nil
}

// What is imported as a collection is listed, queried, restricted and taken down as a whole, and
// what robots brought of the same hosts stays.
func TestCollection(t *testing.T) {
	t.Parallel()
	h := startWithdrawerOf(t, []string{good}, nil)
	h.bring(1)
	elections := wire.Collection{Name: "elections-2009", Source: "a disk of the library", Licence: "for research"}
	old := map[string]string{good + "/old.html": "<p>an old page of the elections", "old.example.jp/1.html": "<p>the elections"}
	testkit.Must(t, h.bringFiles(elections, old))
	testkit.Must(t, h.bringFiles(wire.Collection{Name: "other"}, map[string]string{"old.example.jp/2.html": "<p>something else"}))

	listed := func() (list catalog.CollectionList) {
		t.Helper()
		text, status := h.get(api.PathImported)
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, text)
		}
		testkit.Must(t, json.Unmarshal([]byte(text), &list))
		return list
	}
	if list := listed().Collections; len(list) != 2 || list[0].Collection != elections || list[0].Hosts != 2 || list[0].Records != 2 || list[1].Name != "other" || list[1].Hosts != 1 {
		t.Errorf("listed: %+v", list)
	}
	query := func(q string) []string {
		t.Helper()
		text, status := h.get(api.PathCDX + "?url=*.jp&output=text&fl=url,collection" + q)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", q, status, text)
		}
		return strings.Fields(text)
	}
	if got := query("&collection=elections-2009"); !slices.Equal(got, []string{"http://" + good + "/old.html", elections.Name, "http://old.example.jp/1.html", elections.Name}) {
		t.Errorf("the collection has %q", got)
	}
	all := query("")
	if text, status := h.get(api.PathCDX + "?url=*.jp&collection=Elections"); status != http.StatusBadRequest || !strings.Contains(text, "lower-case") {
		t.Errorf("a name in upper case: status %d: %s", status, text)
	}

	gone := func(when string) {
		t.Helper()
		if names := holding(h.tree(), "elections"); len(names) > 0 {
			t.Errorf("%s: it is in %q", when, names)
		}
		if got := query("&collection=elections-2009"); len(got) > 0 {
			t.Errorf("%s: it has %q", when, got)
		}
		if list := listed().Collections; len(list) != 1 || list[0].Name != "other" {
			t.Errorf("%s: listed: %+v", when, list)
		}
		if names := holding(h.tree(), good+", page 2 "); len(names) < 6 {
			t.Errorf("%s: what the robot brought of the same host is only in %q", when, names)
		}
	}
	var rule account.Rule
	h.operate(http.MethodPost, api.PathAdminAccess, account.Rule{Collection: elections.Name, Accounts: []string{"reader"}, Reason: "licence"}, &rule)
	gone("restricted")
	h.operate(http.MethodDelete, api.PathAdminAccess+"/1", nil, nil)

	h.operate(http.MethodPost, api.PathAdminTakedowns, upkeep.TakedownRequest{Collection: elections.Name, Reason: "the licence has ended"}, nil)
	gone("taken down")
	var list catalog.CollectionList
	h.operate(http.MethodGet, api.PathAdminImported, nil, &list)
	if l := list.Collections; len(l) != 2 || !l[0].TakenDown || l[0].Hosts != 0 || l[1].TakenDown {
		t.Errorf("operators' list: %+v", l)
	}
	if err := h.bringFiles(elections, map[string]string{"new.example.jp/index.html": "x"}); err == nil || !strings.Contains(err.Error(), "taken down") {
		t.Errorf("an import into it: %v", err)
	}
	if err := h.bringFiles(wire.Collection{Name: "No"}, nil); err == nil || !strings.Contains(err.Error(), "lower-case") {
		t.Errorf("an import with a wrong name: %v", err)
	}
	for says, stone := range map[string]upkeep.TakedownRequest{
		"nothing of it is shown": {Collection: "no-such", Reason: "x"}, "leave out host": {Collection: "other", Host: good, Reason: "x"}, "no reason": {Collection: "other"},
	} {
		if err := h.admin.Do(t.Context(), http.MethodPost, api.PathAdminTakedowns, stone, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	var swept catalog.Collection
	h.operate(http.MethodPost, api.PathAdminCollect, map[string]bool{"dry_run": true}, &swept)
	if swept.Condemned.Objects == 0 || swept.Condemned.Some[0].Reason != catalog.ReasonTakenDown {
		t.Errorf("collection of what is taken down: %+v", swept)
	}
	h.operate(http.MethodPost, api.PathAdminLift, upkeep.TakedownRequest{Collection: elections.Name, Reason: "a new contract"}, nil)
	if got := query(""); !slices.Equal(got, all) {
		t.Errorf("restored: %q\nbefore: %q", got, all)
	}
	objects, err := store.OpenFS(path.Join(h.admin.Data, "store"))
	testkit.Must(t, err)
	defer objects.Close()
	report, err := catalog.Fsck(t.Context(), objects, catalog.FsckOptions{Deep: true, TempDir: t.TempDir()})
	testkit.Must(t, err)
	for _, p := range report.Problems {
		t.Errorf("fsck: %s: %s", p.Where, p.Detail)
	}
}

package mirror

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/api"
)

// FuzzPlan is told of changes by a service that may be anybody: whatever it says, nothing is
// fetched to, or deleted at, a place that is not a host's, under a name that is not an archive's.
func FuzzPlan(f *testing.F) {
	for _, text := range []string{
		`{"seq":1,"op":"put","host":"a.jp","path":"/jp/a/","edition":"20261101","files":[{"name":"20261101.tar.gz","size":1,"etag":"x"}]}`,
		`{"op":"put","host":"a.jp","path":"/jp/a/","files":[{"name":"../20261101.tar.gz"},{"name":"current.tar.gz"},{"name":"20261101.tar.gz\n"}]}`,
		`{"op":"delete","host":"..","path":"/../"}`, `{"op":"reseal","host":"192.0.2.1:8080","path":"/192/0/2/1:8080/","why":"takedown"}`,
		`{"op":"put","host":".sheaf-mirror","path":"/sheaf-mirror//"}`, `{"op":"put","host":"a/b.jp","path":"/jp/a/b/"}`, `{"op":"put","host":"","path":"//"}`,
	} {
		f.Add(text)
	}
	m := &mirror{Options: Options{Forms: []string{".tar.gz", "current.tar.gz"}}, changing: true}
	const root = "/srv/mirror"
	f.Fuzz(func(t *testing.T, text string) {
		var e api.Event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		for _, task := range m.plan([]api.Event{e, e}) {
			for name := range task.wanted {
				at := filepath.Join(root, filepath.FromSlash(task.dir+name))
				rel, err := filepath.Rel(root, at)
				if err != nil || !filepath.IsLocal(rel) || strings.Contains(rel, ownDir) || filepath.Base(at) != name || !isArchive(name) || strings.Contains(rel, "\x00") {
					t.Errorf("%s leads to %q", text, at)
				}
			}
			if dir := filepath.Join(root, filepath.FromSlash(task.dir)); !strings.HasPrefix(dir, root+"/") || strings.HasPrefix(dir, filepath.Join(root, ownDir)) || strings.Contains(dir, "\x00") {
				t.Errorf("%s leads to %q", text, dir)
			}
		}
	})
}

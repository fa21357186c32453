package whole

import (
	"net/http"
	"path/filepath"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// The index of records by URL follows what is published. A take-down leaves the rows, because it
// may be lifted. An operator can have the whole index built again.
func TestIndexFollows(t *testing.T) {
	t.Parallel()
	h := startWithdrawer(t, nil)
	h.bring(1)
	objects, err := store.OpenFS(filepath.Join(h.admin.Data, "store"))
	testkit.Must(t, err)
	defer objects.Close()
	reader := urlindex.NewReader(objects, urlindex.ReaderOptions{})
	covered := func(least int64) (v *urlindex.View) {
		t.Helper()
		testkit.Until(t, "the index has a segment of each host", func() bool {
			v, err = reader.Current(t.Context())
			testkit.Must(t, err)
			return v.State() >= least && v.Through() >= 2
		})
		return v
	}
	look := func(v *urlindex.View) {
		t.Helper()
		for _, host := range []string{bad, good} {
			n := 0
			rows, err := v.Rows(t.Context(), urlindex.Prefix(naming.SURT("http://"+host+"/")))
			testkit.Must(t, err)
			for {
				r, err := rows.Next(t.Context())
				if testkit.Must(t, err); r == nil {
					break
				}
				if r.Host() != host || !v.Covers(r.Seq) {
					t.Errorf("%s is of %s, line %d", r.URL, r.Host(), r.Seq)
				}
				n++
			}
			if n == 0 {
				t.Errorf("the index has nothing of %s", host)
			}
		}
		report, err := catalog.Fsck(t.Context(), objects, catalog.FsckOptions{Deep: true, TempDir: t.TempDir(),
			Index: urlindex.NewIndex(objects)})
		testkit.Must(t, err)
		for _, p := range report.Problems {
			t.Errorf("fsck: %s: %s", p.Where, p.Detail)
		}
	}
	v := covered(1)
	look(v)
	h.operate(http.MethodPost, "/v1/admin/takedowns", map[string]string{"host": bad, "reason": "a letter"}, nil)
	look(covered(1))
	h.operate(http.MethodPost, "/v1/admin/urls/rebuild", nil, nil)
	look(covered(v.State() + 2)) // the version that began it again, and the one that was built
}

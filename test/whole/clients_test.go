package whole

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/mirror"
)

// follower is a program that keeps a copy of the tree.
type follower struct {
	tool    string
	deletes bool // what the tree lacks
	run     func(dir string)
}

// followers returns those that people use, as they use them.
func (h *withdrawer) followers() map[string]follower {
	tool := func(name string, deletes bool, args ...string) follower {
		return follower{name, deletes, func(dir string) {
			all := slices.Clone(args)
			for i := range all {
				all[i] = strings.ReplaceAll(all[i], "DIR", dir)
			}
			testkit.Run(h, dir, name, all...)
		}}
	}
	server, port, _ := strings.Cut(h.addr.Download, ":")
	wget := []string{"-q", "-N", "-r", "-l", "inf", "-nH", "-e", "robots=off"}
	rclone := []string{"--config", "/dev/null", "sync"}
	secret := strings.TrimSpace(testkit.Run(h, h.TempDir(), "rclone", "obscure", "reader@example.jp"))
	return map[string]follower{
		"wget":        tool("wget", false, append(wget, "-np", "--cut-dirs=1", h.addr.HTTP+"/pub/")...),
		"wget, FTP":   tool("wget", false, append(wget, "ftp://"+h.addr.Download+"/")...),
		"lftp":        tool("lftp", true, "-e", "set net:max-retries 2; set ftp:ssl-allow no; mirror --delete --no-perms --verbose=0 / .; quit", "ftp://"+h.addr.Download),
		"rclone":      tool("rclone", true, append(rclone, "--http-url", h.addr.HTTP+"/pub/", ":http:", "DIR")...),
		"rclone, FTP": tool("rclone", true, append(rclone, ":ftp,host="+server+",port="+port+",user=anonymous,pass="+secret+":/", "DIR")...),
		"sheaf": {"sheaf mirror", true, func(dir string) {
			_, err := mirror.Run(h.Context(), mirror.Options{URL: h.addr.HTTP, Dir: dir, Once: true, Forms: []string{"tar.gz", "warc.gz", "current.tar.gz", "all.warc.gz", "links.gz"}})
			testkit.Must(h, err)
		}},
	}
}

// holdingIn returns the files below a folder whose name or text has a word.
func holdingIn(t *testing.T, dir, word string) []string {
	t.Helper()
	files := map[string]string{}
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		text := inflated(t, data)
		if strings.Contains(path, "/feed/") { // it says what is gone
			text = strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return !strings.Contains(l, `"op":"put"`) }), "\n")
		}
		files[strings.TrimPrefix(path, dir)] = text
		return err
	}))
	return holding(files, word)
}

// Whoever keeps a copy of the tree with an ordinary program, which compares times, has after its
// next run nothing of what was taken down or hidden meanwhile, however soon that was; and what
// comes back is there again. Of a host that is gone, wget keeps the files, for it deletes none.
func TestCopiesFollowTakedowns(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := startWithdrawer(t, nil)
	h.bring(1)
	const page = "http://" + good + "/1.html"
	words := []string{page, good + ", page 1 "}
	copies := map[string]string{}
	run := func() {
		testkit.Until(t, "the tables and lists are made anew", func() bool {
			latest, _ := h.get("/pub/LATEST")
			day := "/pub/days/" + catalog.DayOf(strings.TrimSpace(latest)) + "/jp/"
			for _, name := range []string{"00001.records.parquet", "changes.jsonl.gz", "changes.parquet"} {
				if _, status := h.get(day + name); status != http.StatusOK { // a directory lists none before
					return false
				}
			}
			return true
		})
		for name, f := range h.followers() {
			if copies[name] == "" {
				copies[name] = t.TempDir()
			}
			f.run(copies[name])
		}
	}
	check := func(when string, gone bool) {
		t.Helper()
		run()
		for name, dir := range copies {
			for _, word := range words {
				if names := holdingIn(t, dir, word); (len(names) == 0) != gone {
					t.Errorf("%s: %s has %q in %q", when, name, word, names)
				}
			}
		}
	}
	check("before", false)
	stone := upkeep.TakedownRequest{Host: good, URLPrefix: page, Reason: "privacy"}
	h.operate(http.MethodPost, api.PathAdminTakedowns, stone, nil)
	check("taken down", true)
	h.operate(http.MethodPost, api.PathAdminLift, stone, nil)
	check("lifted", false)
	rule := account.Rule{URLPrefix: page, Accounts: []string{"reader"}, Reason: "contract"}
	h.operate(http.MethodPost, api.PathAdminAccess, rule, &rule)
	check("hidden", true)

	h.operate(http.MethodPost, api.PathAdminTakedowns, upkeep.TakedownRequest{Host: bad, Reason: "court"}, nil)
	run()
	for name, f := range h.followers() {
		names := holdingIn(t, copies[name], bad)
		names = slices.DeleteFunc(names, func(n string) bool { return !f.deletes && strings.Contains(n, "/jp/example/bad/") })
		if len(names) > 0 {
			t.Errorf("%s has the host in %q", name, names)
		}
	}
}

package ftpd_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/servetest"
)

// Each client that mirrors use fetches an archive whole, as it is used, and those
// that walk trees walk this one.
func TestClientsFetch(t *testing.T) {
	_, addr := newSite(t)
	want := retr(t, login(t, addr, "jp"), dir+"20261121.tar.gz", 0)
	server, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	const file = "20261121.tar.gz"
	for _, c := range []struct {
		tool string
		args []string
		got  string // where the file is then
	}{
		{"busybox", []string{"ftpget", "-u", "jp", "-p", "jp", "-P", port, server, file, dir + file}, file},
		{"ncftpget", []string{"-V", "-u", "jp", "-p", "jp", "-P", port, server, ".", dir + file}, file},
		{"ncftpget", []string{"-V", "-R", "-u", "jp", "-p", "jp", "-P", port, server, ".", "/jp/ac/waseda"}, "waseda/www/" + file},
		{"wget", []string{"-q", "-r", "-nH", "--ftp-user=jp", "--ftp-password=jp", "ftp://" + addr + "/jp/"}, "jp/ac/waseda/www/" + file},
		{"curl", []string{"-sSf", "-R", "-O", "--disable-epsv", "-Q", "-HASH " + dir + file, "ftp://jp:jp@" + addr + dir + file}, file},
		{"python3", []string{"-c", `
import ftplib, sys
f = ftplib.FTP(); f.connect(sys.argv[1], int(sys.argv[2])); f.login("jp", "jp")
def walk(d):
    for name, facts in f.mlsd(d, ["type", "size", "modify"]):
        if facts["type"] == "dir": yield from walk(d + "/" + name)
        else: yield d + "/" + name, facts
for path, facts in walk("/jp"):
    assert f.size(path) == int(facts["size"]), path
    assert f.sendcmd("MDTM " + path) == "213 " + facts["modify"], path
f.retrbinary("RETR " + sys.argv[3], open(sys.argv[4], "wb").write); f.quit()`, server, port, dir + file, file}, file},
	} {
		t.Run(c.tool, func(t *testing.T) {
			to := t.TempDir()
			testkit.Run(t, to, c.tool, c.args...)
			if got, err := os.ReadFile(filepath.Join(to, c.got)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, want %d, %v", c.got, len(got), len(want), err)
			}
		})
	}
}

// rclone copies the tree, finds nothing to do the second time, and takes every size
// and time for the same; a rclone check compares what it has.
func TestRclone(t *testing.T) {
	testkit.Slow(t)
	s, addr := newSite(t)
	server, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	rclone := testkit.Tool(t, "rclone")
	secret, err := exec.CommandContext(t.Context(), rclone, "obscure", "jp").Output()
	if err != nil {
		t.Fatal(err)
	}
	remote := ":ftp,host='" + server + "',port=" + port + ",user=jp,pass='" + strings.TrimSpace(string(secret)) + "':"
	testkit.Run(t, to, rclone, "--config", "/dev/null", "copy", remote, to)
	before := fetches(t, s)
	testkit.Run(t, filepath.Join(to, dir), "sha256sum", "--quiet", "-c", "SHA256SUMS")
	testkit.Run(t, to, rclone, "--config", "/dev/null", "copy", remote, to)
	if n := fetches(t, s) - before; n != 0 {
		t.Errorf("the second copy fetched %d files", n)
	}
	testkit.Run(t, to, rclone, "--config", "/dev/null", "check", "--download", "--one-way", remote+"jp", filepath.Join(to, "jp"))
}

// fetches is how many files were fetched so far.
func fetches(t *testing.T, s *servetest.Site) int {
	t.Helper()
	return len(s.Downloads(transfers.Filter{}))
}

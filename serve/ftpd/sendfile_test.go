package ftpd_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testneed"
	"sheaf/serve/servetest"
)

// Archives that are one stretch of a stored file leave by sendfile, also at an
// account's rate: strace sees their bytes pass no write.
func TestStoredArchivesLeaveBySendfile(t *testing.T) {
	strace := testneed.Tool(t, "strace")
	s := servetest.New(t, nil)
	var records []*archive.Record
	for i := range 4 {
		records = append(records, servetest.Page(fmt.Sprintf("http://%s/%d", host, i), noise(1<<20), day))
	}
	s.Publish("20261121", map[string][]*archive.Record{host: records})
	for _, rate := range []string{"", "8MiB"} {
		p := serveInProcess(t, s.Dir, rate)
		log := filepath.Join(t.TempDir(), "calls")
		cmd := exec.Command(strace, "-f", "-e", "trace=sendfile,write", "-o", log, "-p", strconv.Itoa(p.pid))
		says, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(says).ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
			cmd.Process.Kill()
			cmd.Wait()
			testneed.Missing(t, "strace may not attach to a process here: %s, %v", line, err)
		}
		size := len(retr(t, login(t, p.addr, "jp"), dir+"20261121.members.tar.gz", 0))
		cmd.Process.Signal(os.Interrupt) // it detaches
		cmd.Wait()
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		moved := map[string]int{}
		for _, m := range regexp.MustCompile(`(?m)^\d+ +(\w+)(?:\(| resumed).* = (\d+)$`).FindAllStringSubmatch(string(text), -1) {
			n, _ := strconv.Atoi(m[2])
			moved[m[1]] += n
		}
		for _, m := range regexp.MustCompile(`(?m)^\d+ +<\.\.\. (\w+) resumed.* = (\d+)$`).FindAllStringSubmatch(string(text), -1) {
			n, _ := strconv.Atoi(m[2])
			moved[m[1]] += n
		}
		if moved["sendfile"] != size || moved["write"] > size/10 {
			t.Errorf("rate %q: of %d bytes sendfile moved %d, write %d", rate, size, moved["sendfile"], moved["write"])
		}
	}
}

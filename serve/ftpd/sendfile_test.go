package ftpd_test

import (
	"fmt"
	"testing"

	"sheaf/archive"
	"sheaf/serve/servetest"
)

// Archives that are one stretch of a stored file leave by sendfile, also at an
// account's rate: strace sees their bytes pass no write.
func TestStoredArchivesLeaveBySendfile(t *testing.T) {
	s := servetest.New(t, nil)
	var records []*archive.Record
	for i := range 4 {
		records = append(records, servetest.Page(fmt.Sprintf("http://%s/%d", host, i), noise(1<<20), day))
	}
	s.Publish("20261121", map[string][]*archive.Record{host: records})
	for _, rate := range []string{"", "8MiB"} {
		p := serveInProcess(t, s.Dir, rate)
		size := 0
		moved := p.Moved(t, []string{"sendfile", "write"}, func() {
			size = len(retr(t, login(t, p.Addr, "jp"), dir+"20261121.members.tar.gz", 0))
		})
		if moved["sendfile"] != size || moved["write"] > size/10 {
			t.Errorf("rate %q: of %d bytes sendfile moved %d, write %d", rate, size, moved["sendfile"], moved["write"])
		}
	}
}

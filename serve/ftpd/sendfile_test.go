package ftpd_test

import (
	"fmt"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// Archives, stored as they are or put together as they are sent, leave by sendfile,
// also at an account's rate: strace sees their bytes pass no write.
func TestArchivesLeaveBySendfile(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := servetest.New(t, nil)
	var records []*archive.Record
	for i := range 4 {
		records = append(records, servetest.Page(fmt.Sprintf("http://%s/%d", host, i), noise(1<<20), day))
	}
	s.Publish("20261121", map[string][]*archive.Record{host: records})
	for _, rate := range []string{"", "8MiB"} {
		p := serveInProcess(t, s.Dir, rate)
		for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz"} {
			size := 0
			moved := p.Moved(t, []string{"sendfile", "write"}, func() {
				size = len(retr(t, login(t, p.Addr, "jp"), dir+"20261121"+form, 0))
			})
			// A cell's tar header and trailer are no half percent.
			if moved["sendfile"] < size-size/200 || moved["write"] > size/10 {
				t.Errorf("%s, rate %q: of %d bytes sendfile moved %d, write %d", form, rate, size, moved["sendfile"], moved["write"])
			}
		}
	}
}

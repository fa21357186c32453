package mirror

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// BenchmarkMirror mirrors 2,000 archives of some kilobytes, four at once, and compares with lftp,
// which gets the same files of the same service by FTP. Figures above 1 say that sheaf mirror is
// faster. With news it is the second run: one host of the 2,000 has something new.
func BenchmarkMirror(b *testing.B) {
	lftp := testkit.Tool(b, "lftp")
	s := newSite(b)
	hosts := make([]string, 2000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%03d.u%d.ac.jp", i, i%40)
	}
	s.publish(day, 1, 2000, hosts...)
	peer := func(b *testing.B, dir string) time.Duration {
		b.Helper()
		begin := time.Now()
		script := "set ftp:ssl-allow no; set net:max-retries 2; mirror --parallel=4 -i '20[0-9-]*[.]tar[.]gz$' -x '^(feed|editions)/' / " + dir + "; quit"
		cmd := exec.CommandContext(b.Context(), lftp, "-e", script, s.url("ftp", "alice"))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("lftp: %v\n%s", err, out)
		}
		return time.Since(begin)
	}
	count := func(b *testing.B, dir string) int {
		b.Helper()
		p := &place{dir: dir}
		dirs, err := p.hosts()
		if err != nil {
			b.Fatal(err)
		}
		return len(dirs)
	}
	for _, scheme := range []string{"ftp", "http"} {
		b.Run(scheme, func(b *testing.B) {
			var ours, theirs, newsOurs, newsTheirs time.Duration
			for n := range b.N {
				dir, peerDir := b.TempDir(), b.TempDir()
				opt := s.options(scheme, dir)
				opt.Forms = []string{".tar.gz"}
				begin := time.Now()
				if sum := s.mirror(opt); sum.Fetched < 2000 {
					b.Fatalf("%+v", sum)
				}
				ours += time.Since(begin)
				theirs += peer(b, peerDir)
				if got := count(b, peerDir); got != 2000 {
					b.Fatalf("lftp got %d hosts", got)
				}
				s.publish(day.AddDate(0, 0, 1+n), 1, 2000, hosts[n%len(hosts)])
				begin = time.Now()
				s.mirror(opt)
				newsOurs += time.Since(begin)
				newsTheirs += peer(b, peerDir)
				os.RemoveAll(dir)
				os.RemoveAll(peerDir)
			}
			b.ReportMetric(ours.Seconds()/float64(b.N), "s")
			b.ReportMetric(float64(theirs)/float64(ours), "lftp/sheaf")
			b.ReportMetric(float64(newsTheirs)/float64(newsOurs), "news-lftp/sheaf")
		})
	}
}

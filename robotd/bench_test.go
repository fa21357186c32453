package robotd

import (
	"fmt"
	"syscall"
	"testing"
)

// BenchmarkCrawl measures the whole robot as a process of its own: 20,000 pages of
// 100 hosts on 100 addresses, without an interval, from a synthetic web that runs
// on the same processors.
//
//	go test ./robotd -run - -bench Crawl -benchtime 3x
func BenchmarkCrawl(b *testing.B) {
	for _, level := range []int{3, 6} {
		b.Run(fmt.Sprintf("level=%d", level), func(b *testing.B) {
			var pages, seconds, cpu, memory float64
			for b.Loop() {
				web := newSynthweb(b, "-hosts", "100", "-pages", "200")
				cfg := testConfig(b, newService(b, web.seeds...), nil)
				cfg.Interval, cfg.Batch.Level = 0, level
				robot := startRobot(b, cfg)
				if err := robot.Wait(); err != nil {
					b.Fatal(err)
				}
				web.stop()
				st := web.last
				if st.Unique != st.Total || st.Pages != st.Unique {
					b.Fatalf("%d pages of %d were fetched, %d in all", st.Unique, st.Total, st.Pages)
				}
				pages, seconds = pages+float64(st.Pages), seconds+st.Seconds
				cpu += (robot.ProcessState.UserTime() + robot.ProcessState.SystemTime()).Seconds()
				memory = max(memory, float64(robot.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
			}
			b.ReportMetric(pages/seconds, "pages/s")
			b.ReportMetric(cpu/pages*1000, "cpu-s/1000pages")
			b.ReportMetric(memory, "MB")
		})
	}
}

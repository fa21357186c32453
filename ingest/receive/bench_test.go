package receive_test

import (
	"bytes"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/test/batchtest"
)

// BenchmarkSmallBatches brings tiny batches from one robot, one after the other, until
// each is accepted, while earlier ones are split, published and collected: what a robot
// does that was away for long. For the 2,000 of a bad week: -benchtime 2000x.
func BenchmarkSmallBatches(b *testing.B) {
	for _, protocol := range []string{"http", "ftp"} {
		b.Run(protocol, func(b *testing.B) {
			h := newBare(b, time.Second).open()
			batches := make([]*batchtest.Batch, b.N)
			for n := range batches {
				batches[n] = batchtest.Make(b, h.robots, int64(n+1), batchtest.Site("a.example.jp", 1))
			}
			send := func(one *batchtest.Batch) {
				h.want(h.create(one), 201)
				h.want(h.patch(one, 0, bytes.NewReader(one.Data)), 204)
				h.want(h.putManifest(one), 202)
			}
			if protocol == "ftp" {
				c := h.dial()
				defer c.Quit()
				send = func(one *batchtest.Batch) {
					testkit.Must(b, c.Stor(string(one.ID)+".tar.gz", bytes.NewReader(one.Data)))
					testkit.Must(b, c.Stor(string(one.ID)+".manifest", bytes.NewReader(one.Signed)))
				}
			}
			b.ResetTimer()
			for n, one := range batches {
				send(one)
				if n == b.N/10 {
					b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(n+1), "ms/batch-of-first-tenth")
				}
			}
		})
	}
}

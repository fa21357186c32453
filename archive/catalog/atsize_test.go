package catalog_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/catalog"
)

// atSize says how large a catalog BenchmarkCatalogAtSize makes.
type atSize struct{ hosts, editions int }

func sizeFromEnv() atSize {
	return atSize{fromEnv("SHEAF_BENCH_HOSTS", 20_000), fromEnv("SHEAF_BENCH_EDITIONS", 10)}
}

// fromEnv is a number in the environment.
func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// portals is the number of sites with many hosts below them, as blog services have.
const portals = 20

// host names the i-th host: of ten, six lie alone in a second-level domain, two
// right below jp, and two with very many others below a portal.
func (s atSize) host(i int) string {
	switch i % 10 {
	case 0, 1:
		return fmt.Sprintf("www.%s.jp", word(i))
	case 2, 3:
		return fmt.Sprintf("%s.portal%02d.ne.jp", word(i), i/10%portals)
	}
	return fmt.Sprintf("www.%s.%s.jp", word(i), []string{"co", "or", "ac", "co"}[i%4])
}

// word is a name of its own for each number, which looks like a word and scatters.
func word(i int) string {
	const syllables = "kasatanahamayarawakisitinihimirikusutunuhumuyuruketesenehemere"
	n := uint64(i)*2654435761%(1<<32) | 1<<32
	var w []byte
	for ; n > 0; n /= 31 {
		w = append(w, syllables[n%31*2:][:2]...)
	}
	return string(w)
}

const batchesPerEdition = 100

func sizeBatch(edition, n int) catalog.Batch {
	return catalog.Batch{ID: fmt.Sprintf("robot%02d-202611%02dT000000Z-%d", n%32, edition+1, n), SHA256: hexSHA256(fmt.Sprint(edition, n))}
}

// edition is one edition's publication: a segment of each of the hosts.
func (s atSize) edition(e int) catalog.Publication {
	return s.publication(e, s.hosts)
}

func (s atSize) publication(e, hosts int) catalog.Publication {
	var p catalog.Publication
	for n := range batchesPerEdition {
		p.Batches = append(p.Batches, sizeBatch(e, n))
	}
	p.Entries = func(yield func(catalog.SegmentEntry, error) bool) {
		random := rand.NewChaCha8([32]byte{byte(e)})
		hexes := func(n int) string {
			var sum [32]byte
			_, _ = random.Read(sum[:]) // never fails
			return hex.EncodeToString(sum[:n])
		}
		crawled := noon.Add(time.Duration(e-40) * 24 * time.Hour)
		for i := range hosts {
			b := p.Batches[i%batchesPerEdition]
			host := s.host(i)
			length := int64(20_000 + i*7919%500_000)
			l := catalog.SegmentEntry{
				Host: host, Object: fmt.Sprintf("segments/%s/%s-1.tar.gz", strings.ReplaceAll(catalog.Key(host), ",", "/"), b.ID),
				Length: length, IndexOffset: length - 2000, IndexLength: 1800,
				First: crawled.Add(time.Duration(i) * time.Millisecond), Last: crawled.Add(time.Duration(i+90_000) * time.Millisecond),
				Records: int64(3 + i%40), Revisits: int64(i % 7), Files: int64(2 + i%30), SHA256: hexes(32), Views: make(map[string]catalog.View),
				Origin: catalog.Origin{Batch: b.ID, BatchSHA256: b.SHA256, Robot: fmt.Sprintf("robot%02d", i%32)},
			}
			for k, kind := range []string{"members", "single", "warc"} {
				l.Views[kind] = catalog.View{Size: length + int64(k*1000), SHA256: hexes(32), ETag: `"` + hexes(16) + `"`}
			}
			if !yield(l, nil) {
				return
			}
		}
	}
	return p
}

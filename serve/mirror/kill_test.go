package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// childOptions is set in a process that is to mirror and nothing else.
const childOptions = "SHEAF_TEST_MIRROR"

func TestMain(m *testing.M) {
	text := os.Getenv(childOptions)
	if text == "" {
		testkit.InMemory(m)
	}
	var opt Options
	if err := json.Unmarshal([]byte(text), &opt); err != nil {
		panic(err)
	}
	opt.Reporter = NewLines(os.Stdout)
	if _, err := Run(context.Background(), opt); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child starts a mirror in a process of its own.
func child(t *testing.T, opt Options) *testkit.Process {
	t.Helper()
	text, err := json.Marshal(opt)
	testkit.Must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childOptions+"="+string(text))
	return testkit.Start(t, "", cmd)
}

// TestKill kills the mirror's process 6 times (in its long form, 30 times), at any moment, while
// the archive goes on living. No file has its name before it is whole, no take-down is missed, and
// in the end all is as the tree is.
func TestKill(t *testing.T) {
	testkit.Slow(t)
	kills := testkit.Size(6, 30)
	each(t, func(t *testing.T, scheme string) {
		t.Parallel()
		s := newSite(t)
		dir := t.TempDir()
		opt := s.options(scheme, dir)
		opt.Forms = append(opt.Forms, "current.tar.gz")
		opt.Once, opt.Poll = false, 100*time.Millisecond
		random := testkit.Random(t)
		hosts := []string{"www.waseda.ac.jp", "waseda.ac.jp", "www.keio.ac.jp", "other.jp"}
		underway := 0
		for round := range kills {
			at := day.AddDate(0, 0, round)
			switch round % 5 {
			case 0, 2, 3:
				s.publish(at, 2, 50_000, hosts[random.IntN(4)], "big.jp")
			case 4:
				stone := catalog.Tombstone{Host: hosts[random.IntN(4)]}
				if random.IntN(2) == 0 {
					stone.URLPrefix = "http://" + stone.Host + "/p1"
				}
				s.takeDown(stone)
			}
			opt.Limit = 0 // catches up, so that kills meet all that follows on downloads
			if round%2 == 0 {
				opt.Limit = 512 << 10
			}
			c := child(t, opt)
			if round%2 == 0 { // once a download is under way, or there was none
				c.Ready(t, func() error { return downloading(dir, c.Log) })
				testkit.Moment(random, 60*time.Millisecond)
			} else {
				testkit.Moment(random, 300*time.Millisecond)
			}
			c.Kill()
			if err := c.Ended(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("ended by itself: %v\n%s", err, testkit.Tail(c.Log))
			}
			s.partlyEqual(dir)
			if parts, _ := os.ReadDir(filepath.Join(dir, ownDir, partialDir)); len(parts) > 0 {
				underway++
			}
		}
		opt.Once, opt.Limit = true, 0
		s.mirror(opt)
		s.equal(dir, japan, opt.Forms...)
		t.Logf("%d of %d kills met a download", underway, kills)
		if underway < kills/6 {
			t.Errorf("only %d of %d kills met a download", underway, kills)
		}
	})
}

// downloading returns an error until a download is under way into dir, or the mirror's log says
// that it has all there is.
func downloading(dir, log string) error {
	parts, _ := os.ReadDir(filepath.Join(dir, ownDir, partialDir)) // which it may not have made yet
	if text, err := os.ReadFile(log); err != nil || len(parts) == 0 && !bytes.Contains(text, []byte("current: ")) {
		return fmt.Errorf("no download is under way (%v): %s", err, text)
	}
	return nil
}

// partlyEqual expects every file that has its name to be whole, as the service has it or had it.
func (s *site) partlyEqual(dir string) {
	s.Helper()
	p := &place{dir: dir}
	dirs, err := p.hosts()
	if err != nil {
		s.Fatal(err)
	}
	for _, d := range dirs {
		have, err := p.inHand(d)
		if err != nil {
			s.Fatal(err)
		}
		for name, f := range have {
			ok, err := sound(p.at(d+name), f)
			if _, missing := os.Stat(p.at(d + name)); missing == nil && f.ETag != "" && (err != nil || !ok) { // a deletion may be half done
				s.Errorf("%s%s is not what it should be: %v", d, name, err)
			}
		}
	}
}

// TestDiskFull mirrors onto a disk that is too small: it says so, keeps what it has, and goes
// on when there is room.
func TestDiskFull(t *testing.T) {
	disk := testkit.SmallDisk(t, "size=700k,mode=777")
	if disk == "" {
		return
	}
	s := newSite(t)
	s.publish(day, 1, 150_000, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp", "a.jp", "b.jp", "c.jp")
	opt := s.options("http", filepath.Join(disk, "mirror"))
	opt.Forms = []string{".tar.gz"}
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	s.publish(day.AddDate(0, 0, 1), 1, 100, "d.jp")
	for range 2 {
		sum, err := Run(t.Context(), opt)
		if err == nil || !strings.Contains(err.Error(), "is full") || !strings.Contains(err.Error(), "make room") {
			t.Fatalf("%+v, %v", sum, err)
		}
		s.partlyEqual(opt.Dir)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.takeDown(catalog.Tombstone{Host: "b.jp"})
	s.takeDown(catalog.Tombstone{Host: "c.jp"})
	s.mirror(opt)
	s.equal(opt.Dir, japan, ".tar.gz")
}

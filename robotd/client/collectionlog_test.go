package client

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// A line that the disk does not take leaves nothing of itself: the manager gets the lines before
// and after it whole, with their time. If the log cannot be closed, it goes on.
func TestLogOnFullDisk(t *testing.T) {
	l, err := OpenCollectionLog(t.TempDir(), "r1")
	testkit.Must(t, err)
	defer l.Close()
	testkit.Must(t, l.Comment("begun"))
	lift := testkit.FilesUpTo(t, 100)
	if lift == nil {
		return
	}
	if err := l.Add(wire.LogLine{URL: "http://www.a.test/" + strings.Repeat("long/", 40)}); err == nil {
		t.Error("a full disk took a line")
	}
	lift()
	testkit.Must(t, l.Add(wire.LogLine{URL: "http://www.b.test/"}))
	lift = testkit.FilesUpTo(t, 0)
	if err := l.Rotate(time.Now()); err == nil {
		t.Error("a full disk took the name of a log")
	}
	lift()
	testkit.Must(t, l.Add(wire.LogLine{URL: "http://www.c.test/"}))
	testkit.Must(t, l.Rotate(time.Now()))
	var got taker
	testkit.Must(t, l.Submit(t.Context(), &got))
	if len(got) != 2 || got[0].URL != "http://www.b.test/" || got[0].At.IsZero() || got[1].URL != "http://www.c.test/" {
		t.Errorf("the manager got %v", got)
	}
}

// taker is a manager that takes the lines of logs.
type taker []wire.LogLine

func (m *taker) SubmitLog(_ context.Context, open func() (io.Reader, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	lines := bufio.NewReader(r)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	for line, err := range wire.ReadLogLines(lines, 1<<20) {
		if err != nil {
			return err
		}
		*m = append(*m, line)
	}
	return nil
}

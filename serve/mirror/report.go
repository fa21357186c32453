package mirror

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"sheaf/internal/display"
)

// Reporter is told of a mirror's progress. Its methods may be called concurrently.
type Reporter interface {
	Begin(path string, size, from int64) Bar // a download begins, or goes on
	Feed(since, last int64)                  // place in the feed, and its end
	Note(n Note)
}

// Bar is told of the progress of one download.
type Bar interface {
	Add(n int64) // bytes; negative if the download begins anew
	End(err error)
}

// Note is an event: a file was "fetched", "deleted" or "damaged"; a host is "pending", or was
// "refused" because its robots.txt asks what is honoured; the mirror
// is "waiting" until some time, tries "again" after an error, begins "anew" at the feed's
// beginning, or is "current", at the feed's end, with totals.
type Note struct {
	Event   string        `json:"event"`
	Path    string        `json:"path,omitempty"`
	Why     string        `json:"why,omitempty"`
	Until   time.Time     `json:"until,omitzero"`
	Since   int64         `json:"since,omitempty"`
	Files   int64         `json:"files,omitempty"`
	Bytes   int64         `json:"bytes,omitempty"`
	Deleted int64         `json:"deleted,omitempty"`
	Took    time.Duration `json:"took,omitempty"` // nanoseconds
}

func (n Note) String() string {
	text := n.Event
	if n.Path != "" {
		text += " " + n.Path
	}
	switch n.Event {
	case "current":
		text = fmt.Sprintf("current: all up to number %d is in hand; %d files (%s) fetched, %d deleted", n.Since, n.Files, bytesText(n.Bytes), n.Deleted)
	case "fetched":
		text += fmt.Sprintf(" (%s in %v)", bytesText(n.Bytes), n.Took.Round(time.Millisecond))
	case "waiting":
		text += " until " + n.Until.Local().Format(time.RFC3339)
	}
	if n.Why != "" {
		text += ": " + n.Why
	}
	return display.Harmless(text)
}

func bytesText(n int64) string {
	return strings.TrimSpace(fmt.Sprintf("% .1f", decor.SizeB1024(n)))
}

// silent reports nothing.
type silent struct{}

func (silent) Begin(string, int64, int64) Bar { return silent{} }
func (silent) Feed(int64, int64)              {}
func (silent) Note(Note)                      {}
func (silent) Add(int64)                      {}
func (silent) End(error)                      {}

// Lines writes one line for each Note, and for each download that succeeds.
type Lines struct {
	mu    sync.Mutex // guards out
	out   io.Writer
	write func(io.Writer, Note) error
}

// NewLines returns a Reporter that writes lines for people.
func NewLines(out io.Writer) *Lines {
	return &Lines{out: out, write: func(w io.Writer, n Note) error {
		_, err := fmt.Fprintln(w, n)
		return err
	}}
}

// NewJSON returns a Reporter that writes a JSON object on each line.
func NewJSON(out io.Writer) *Lines {
	return &Lines{out: out, write: func(w io.Writer, n Note) error { return json.NewEncoder(w).Encode(n) }}
}

// Begin implements Reporter.
func (l *Lines) Begin(path string, size, from int64) Bar {
	return &lineBar{of: l, note: Note{Event: "fetched", Path: path, Bytes: size}, begun: time.Now()}
}

// Feed implements Reporter.
func (l *Lines) Feed(int64, int64) {}

// Note implements Reporter.
func (l *Lines) Note(n Note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.write(l.out, n) // a reader that has closed the output is no reason to stop
}

type lineBar struct {
	of    *Lines
	note  Note
	begun time.Time
}

func (b *lineBar) Add(int64) {}

func (b *lineBar) End(err error) {
	if err == nil {
		b.note.Took = time.Since(b.begun)
		b.of.Note(b.note)
	}
}

// Bars draws a bar for the feed and one for each download on a terminal.
type Bars struct {
	progress *mpb.Progress
	feed     *mpb.Bar
}

// NewBars returns Bars on a terminal. The caller must call Wait at the end.
func NewBars(out io.Writer) *Bars {
	p := mpb.New(mpb.WithOutput(out), mpb.WithWidth(32), mpb.WithRefreshRate(200*time.Millisecond))
	feed := p.AddBar(0, mpb.BarPriority(1<<30), // below the downloads
		mpb.PrependDecorators(decor.Name("feed", decor.WCSyncSpaceR), decor.CountersNoUnit("%d / %d", decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Percentage()))
	return &Bars{p, feed}
}

// Begin implements Reporter.
func (b *Bars) Begin(name string, size, from int64) Bar {
	bar := b.progress.AddBar(size, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(
			decor.Name(display.Harmless(path.Base(path.Dir(name))+"/"+path.Base(name)), decor.WCSyncSpaceR),
			decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1024(0), "% .1f"), decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace)))
	bar.SetRefill(from)
	bar.SetCurrent(from)
	return &drawn{bar}
}

// Feed implements Reporter.
func (b *Bars) Feed(since, last int64) {
	b.feed.SetTotal(max(last, 1), false)
	b.feed.SetCurrent(since)
}

// Note implements Reporter. It ignores fetched files, which have bars.
func (b *Bars) Note(n Note) {
	if n.Event != "fetched" {
		fmt.Fprintln(b.progress, n)
	}
}

// Wait draws the bars for the last time.
func (b *Bars) Wait() {
	b.feed.Abort(false)
	b.progress.Wait()
}

type drawn struct{ *mpb.Bar }

func (d *drawn) Add(n int64) { d.IncrInt64(n) }

func (d *drawn) End(err error) {
	if err != nil {
		d.Abort(true)
		return
	}
	d.SetTotal(-1, true)
}

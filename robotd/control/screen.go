package control

import (
	"fmt"
	"strings"
	"time"
)

// Screen says how to format a status for people.
type Screen struct {
	Width, Height int  // of the terminal; 0: no limit
	Color         bool // highlight what matters
	Running       bool // the daemon is running
	Now           time.Time
}

const labels = 9 // width of the labels

// Render formats the status as lines that fit the width of the screen. If the screen has a height,
// Render shows as many hosts as fit.
func (v Screen) Render(s *Status) string {
	var b builder
	b.screen = v
	b.head(s)
	b.plan(s)
	b.work(s)
	b.spool(s)
	for _, text := range s.Warnings {
		b.marked(yellow, "warning", text)
	}
	b.modules(s)
	b.hands(s)
	b.hosts(s)
	return strings.Join(b.lines, "\n") + "\n"
}

type builder struct {
	screen Screen
	lines  []string
}

const (
	bold   = "1"
	red    = "1;31"
	yellow = "33"
	dim    = "2"
)

// add adds a line, cut to the width and coloured as a whole.
func (b *builder) add(color, line string) {
	if w := b.screen.Width; w > 0 && columns(line) > w {
		line = head(line, w-1) + "…"
	}
	if color != "" && b.screen.Color {
		line = "\x1b[" + color + "m" + line + "\x1b[m"
	}
	b.lines = append(b.lines, line)
}

// row adds a text with a label. A text that is too long continues on the next lines.
func (b *builder) row(label, format string, args ...any) {
	b.marked("", label, fmt.Sprintf(format, args...))
}

func (b *builder) marked(color, label, text string) {
	room := b.screen.Width - labels
	if b.screen.Width == 0 {
		b.add(color, pad(label, labels)+text)
		return
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > room {
			b.add(color, pad(label, labels)+line)
			label, line = "", ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	b.add(color, pad(label, labels)+line)
}

func (b *builder) head(s *Status) {
	now := b.screen.Now
	color, state := b.state(s)
	who := fmt.Sprintf("%s, sheaf-robotd %s", s.Robot, s.Version)
	if b.screen.Running {
		who += fmt.Sprintf(", process %d, up %s", s.PID, span(now.Sub(s.Started)))
	}
	b.row("robot", "%s", who)
	b.marked(color, "state", state)
	for _, text := range s.Troubles {
		b.marked(red, "trouble", text)
	}
	if s.Page != "" {
		b.row("page", "%s", Printable(s.Page, 0))
	}
}

// state returns what the robot is doing, in a few words.
func (b *builder) state(s *Status) (color, text string) {
	now := b.screen.Now
	switch {
	case !b.screen.Running:
		return red, fmt.Sprintf("does not run; this is what it said %s ago, %s", span(now.Sub(s.At)), s.At.Local().Format("2006-01-02 15:04:05"))
	case len(s.Troubles) > 0:
		return red, "makes no progress"
	case !s.Paused.IsZero():
		text = fmt.Sprintf("paused since %s; \"robotd resume\" lets it go on", clock(s.Paused, now))
		if s.Visited > 0 {
			text += "; " + plural(int64(s.Visited), "page is", "pages are") + " being finished"
		}
		return yellow, text
	case !s.Held.IsZero():
		return yellow, fmt.Sprintf("paused since %s by the manager's order, which its operator lifts", clock(s.Held, now))
	case s.Generation == 0 && s.Hosts == 0:
		return yellow, "waiting for the service and its list of hosts"
	case !s.Next.Cycle.IsZero():
		return bold, "all done; the next cycle begins " + until(s.Next.Cycle, now)
	case len(s.Modules) == 0:
		return bold, "getting ready"
	case !s.Open:
		return bold, "waiting for the window"
	case !s.Budget.IsZero():
		return bold, "the limit of bytes is reached; goes on " + until(s.Budget, now)
	case s.Waiting == 0 && s.Hosts > 0:
		return bold, "looking up hosts, or finishing"
	}
	return bold, "visiting"
}

func (b *builder) plan(s *Status) {
	now := b.screen.Now
	window := map[bool]string{false: "closed", true: "open"}[s.Open]
	switch {
	case s.Changes.IsZero(): // always, or never
	case s.Open:
		window += ", closes " + until(s.Changes, now)
	default:
		window += ", opens " + until(s.Changes, now)
	}
	b.row("window", "%s; %s", window, s.Window)
	list := fmt.Sprintf("generation %d, %s", s.Generation, plural(int64(s.Hosts), "host", "hosts"))
	switch {
	case s.Cycle == 0:
	case s.Ended.IsZero():
		list += fmt.Sprintf("; cycle %d, began %s", s.Cycle, clock(s.Began, now))
	default:
		list += fmt.Sprintf("; cycle %d, %s to %s", s.Cycle, clock(s.Began, now), clock(s.Ended, now))
	}
	b.row("list", "%s", list)
	var next []string
	for _, n := range []struct {
		what string
		at   time.Time
	}{{"visit", s.Next.Visit}, {"log handed in", s.Next.Log}, {"manager asked", s.Next.Manager}} {
		if n.at.IsZero() || !b.screen.Running || n.what == "visit" && !(s.Paused.IsZero() && s.Held.IsZero()) {
			continue
		}
		next = append(next, n.what+" "+until(n.at, now))
	}
	if next != nil {
		b.row("next", "%s", strings.Join(next, ", "))
	}
}

func (b *builder) work(s *Status) {
	now := b.screen.Now
	if len(s.Modules) > 0 {
		b.row("hosts", "%s being visited, %s waiting, on %s%s",
			count(int64(s.Visited)), count(int64(s.Waiting-s.Visited)), plural(int64(s.Addresses), "address", "addresses"), unreached(s))
	}
	b.row("pages", "%s (%s/min), %s (%s/min); lost since the last batch: %s",
		count(s.Pages.Total), count(s.Pages.PerMinute), Size(s.Bytes.Total), Size(s.Bytes.PerMinute), lost(s.Lost))
	b.coverage(s)
	if f := s.Forecast; f != nil {
		text := plural(f.Pages, "page is", "pages are") + " known and not visited; "
		switch {
		case f.Fits >= f.Pages && !f.Done.IsZero():
			text += "done about " + until(f.Done, now)
		case f.Done.IsZero():
			text += count(f.Fits) + " fit before the window closes: NOT to be finished within a year"
		default:
			text += fmt.Sprintf("%s fit before the window closes: NOT finished in it, but about %s, in its opening no. %d",
				count(f.Fits), until(f.Done, now), f.Nights)
		}
		b.row("left", "%s", text)
		b.row("", "longest at %s: %s, most of %s", f.Slowest.Address, plural(f.Slowest.Pages, "page", "pages"), readable(f.Slowest.Host))
	}
}

// unreached names hosts that are left out of the cycle.
func unreached(s *Status) string {
	if s.LeftOut == 0 {
		return ""
	}
	var names []string
	for _, name := range s.Unreached {
		names = append(names, readable(name))
	}
	text := fmt.Sprintf("; %s left out: %s", count(int64(s.LeftOut)), strings.Join(names, ", "))
	if s.LeftOut > len(names) {
		text += ", …"
	}
	return text
}

func (b *builder) spool(s *Status) {
	text := "nothing waits for the service"
	if len(s.Spool) > 0 {
		total := int64(0)
		for _, batch := range s.Spool {
			total += batch.Bytes
		}
		text = fmt.Sprintf("%s for the service, %s, the oldest %s old", plural(int64(len(s.Spool)), "batch waits", "batches wait"),
			Size(total), span(b.screen.Now.Sub(s.Spool[0].Made)))
	}
	if s.Sealing > 0 {
		text += fmt.Sprintf("; %s are being made into a batch", Size(s.Sealing))
	}
	text += fmt.Sprintf("; %s collected for the next", Size(s.Segments))
	if s.Segments > 0 && s.Open && !s.Changes.IsZero() {
		text += ", at the latest when the window closes " + until(s.Changes, b.screen.Now)
	}
	b.row("batches", "%s", text)
	b.uploads(s)
	if s.Found > 0 {
		b.row("found", "%s outside the list, to be reported", plural(int64(s.Found), "host", "hosts"))
	}
	if s.Clock != nil {
		b.row("clock", "%+d ms from the manager's, give or take %d", s.Clock.OffsetMS, s.Clock.ErrorMS)
	}
	if t := s.Tap; t != nil && b.screen.Running && (t.Consumers > 0 || t.Dropped > 0) {
		b.row("tap", "%s; %s dropped because they were slow", plural(int64(t.Consumers), "consumer", "consumers"), plural(t.Dropped, "record", "records"))
	}
}

func (b *builder) modules(s *Status) {
	if len(s.Modules) == 0 || !b.screen.Running {
		return
	}
	b.add("", "")
	b.add(dim, pad("MODULE", labels)+right("QUEUE", 8)+right("WORKERS", 9)+right("PASSED", 12)+right("/MIN", 9)+right("TIME EACH", 12))
	for _, m := range s.Modules {
		each := "-"
		if m.Each > 0 {
			each = m.Each.Round(precision(m.Each)).String()
		}
		b.add("", pad(m.Name, labels)+right(count(int64(m.Queue)), 8)+right(count(int64(m.Workers)), 9)+
			right(count(m.Passed.Total), 12)+right(count(m.Passed.PerMinute), 9)+right(each, 12))
	}
}

func (b *builder) hands(s *Status) {
	if len(s.Hands) == 0 || !b.screen.Running {
		return
	}
	b.add("", "")
	b.add(dim, pad("HAND", 2*labels)+right("TURNS", 8)+right("OF", 8)+right("PAGES", 12)+right("BYTES", 11)+right("UP", 9)+"  VERSION")
	for _, h := range s.Hands {
		b.add("", pad(h.Name, 2*labels)+right(count(int64(h.Turns)), 8)+right(count(int64(h.Most)), 8)+
			right(count(h.Pages), 12)+right(Size(h.Bytes), 11)+right(span(b.screen.Now.Sub(h.Since)), 9)+"  "+Printable(h.Version, 0))
	}
}

// precision returns the unit to round d to, so that about two digits stay.
func precision(d time.Duration) time.Duration {
	p := time.Duration(1)
	for ; d >= 100; d /= 10 {
		p *= 10
	}
	return p
}

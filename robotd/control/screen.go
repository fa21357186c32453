package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/internal/display"
	"sheaf/robotd/config"
)

// Screen says how to format a status for people.
type Screen struct {
	Width, Height int  // of the terminal; 0: no limit
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
		b.row("warning", "%s", text)
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

// add adds a line, cut to the width.
func (b *builder) add(line string) {
	line = strings.TrimRight(line, " ")
	if w := b.screen.Width; w > 0 {
		line = fit(line, w)
	}
	b.lines = append(b.lines, line)
}

// row adds a text with a label. A text that is too long continues on the next lines.
func (b *builder) row(label, format string, args ...any) {
	text := display.Harmless(fmt.Sprintf(format, args...))
	if b.screen.Width == 0 {
		b.add(pad(label, labels) + text)
		return
	}
	room, line := b.screen.Width-labels, ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > room {
			b.add(pad(label, labels) + line)
			label, line = "", ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	b.add(pad(label, labels) + line)
}

// table adds a blank line, the titles and the rows. A column is aligned right if its title begins
// with a space.
func (b *builder) table(titles []string, rows [][]string) {
	all := append([][]string{titles}, rows...)
	widths := make([]int, len(titles))
	for _, row := range all {
		for i := range row {
			row[i] = display.Harmless(row[i])
			widths[i] = max(widths[i], columns(row[i]))
		}
	}
	b.add("")
	for _, row := range all {
		line := ""
		for i, cell := range row {
			switch {
			case strings.HasPrefix(titles[i], " "):
				line += strings.Repeat(" ", widths[i]-columns(cell)) + cell + " "
			case i == len(row)-1: // may be long
				line += cell
			default:
				line += pad(cell, widths[i]+1)
			}
		}
		b.add(line)
	}
}

func (b *builder) head(s *Status) {
	now := b.screen.Now
	who := fmt.Sprintf("%s, sheaf-robotd %s", s.Robot, s.Version)
	if b.screen.Running {
		who += fmt.Sprintf(", process %d, up %s", s.PID, span(now.Sub(s.Started)))
	}
	b.row("robot", "%s", who)
	b.row("state", "%s", b.state(s))
	for _, text := range s.Troubles {
		b.row("trouble", "%s", text)
	}
	if s.Page != "" {
		b.row("page", "%s", s.Page)
	}
}

// state returns what the robot is doing, in a few words.
func (b *builder) state(s *Status) string {
	now := b.screen.Now
	switch {
	case !b.screen.Running:
		return fmt.Sprintf("does not run; this is what it said %s ago, %s", span(now.Sub(s.At)), s.At.Local().Format("2006-01-02 15:04:05"))
	case len(s.Troubles) > 0:
		return "makes no progress"
	case !s.Paused.IsZero():
		text := fmt.Sprintf("paused since %s; \"robotd resume\" lets it go on", clock(s.Paused, now))
		if s.Visited > 0 {
			text += "; " + plural(int64(s.Visited), "page is", "pages are") + " being finished"
		}
		return text
	case !s.Held.IsZero():
		return fmt.Sprintf("paused since %s by the manager's order, which its operator lifts", clock(s.Held, now))
	case s.Generation == 0 && s.Hosts == 0:
		return "waiting for the service and its list of hosts"
	case !s.Next.Cycle.IsZero():
		return "all done; the next cycle begins " + until(s.Next.Cycle, now)
	case len(s.Modules) == 0:
		return "getting ready"
	case !s.Open:
		return "waiting for the window"
	case !s.Budget.IsZero():
		return "the limit of bytes is reached; goes on " + until(s.Budget, now)
	case s.Waiting == 0 && s.Hosts > 0:
		return "looking up hosts, or finishing"
	}
	return "visiting"
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
	var rows [][]string
	for _, m := range s.Modules {
		each := "-"
		if m.Each > 0 {
			each = m.Each.Round(precision(m.Each)).String()
		}
		rows = append(rows, []string{m.Name, count(int64(m.Queue)), count(int64(m.Workers)), count(m.Passed.Total), count(m.Passed.PerMinute), each})
	}
	b.table([]string{"MODULE", " QUEUE", " WORKERS", " PASSED", " /MIN", " TIME EACH"}, rows)
}

func (b *builder) hands(s *Status) {
	if len(s.Hands) == 0 || !b.screen.Running {
		return
	}
	var rows [][]string
	for _, h := range s.Hands {
		rows = append(rows, []string{h.Name, count(int64(h.Turns)), count(int64(h.Most)), count(h.Pages), Size(h.Bytes), span(b.screen.Now.Sub(h.Since)), h.Version})
	}
	b.table([]string{"HAND", " TURNS", " OF", " PAGES", " BYTES", " UP", "VERSION"}, rows)
}

const (
	day      = 24 * time.Hour
	mostName = 60 // columns for the name of a host
)

// hosts adds the table of hosts, as far as the screen has room.
func (b *builder) hosts(s *Status) {
	room, name := len(s.PerHost), mostName
	if h := b.screen.Height; h > 0 {
		room = min(room, h-len(b.lines)-3) // a blank line, the titles, the cursor's line
	}
	if room < 1 {
		return
	}
	if w := b.screen.Width; w > 0 {
		name = min(name, w/2)
	}
	var rows [][]string
	for _, h := range s.PerHost[:room] {
		next := "-"
		if wait := h.Next.Sub(b.screen.Now); wait >= day {
			next = clock(h.Next, b.screen.Now)
		} else if wait >= 0 {
			next = span(wait)
		} else if !h.Next.IsZero() {
			next = "due"
		}
		rows = append(rows, []string{fit(readable(h.Name), name), string(h.State), count(h.Pages.Total), count(h.Left), next, h.Why,
			count(h.Pages.PerMinute), Size(h.Bytes.Total), h.Address})
	}
	b.table([]string{"HOST", "STATE", " PAGES", " LEFT", " NEXT", "WHY", " /MIN", " BYTES", "ADDRESS"}, rows)
}

// precision returns the unit to round d to, so that about two digits stay.
func precision(d time.Duration) time.Duration {
	p := time.Duration(1)
	for ; d >= 100; d /= 10 {
		p *= 10
	}
	return p
}

// reasonsShown is how many reasons of a kind are shown, the most frequent first.
const reasonsShown = 3

// coverage adds the lines about the cycle's pages.
func (b *builder) coverage(s *Status) {
	c := s.Coverage
	if c == nil {
		return
	}
	b.row("covered", "%s taken, %s unchanged, %s", plural(c.Pages, "page", "pages"), count(c.Unchanged), plural(c.Answers, "other answer", "other answers"))
	if c.Unverified > 0 {
		b.row("", "%s of them from servers whose certificate does not verify", count(c.Unverified))
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Lost)) {
		total := int64(0)
		for _, n := range c.Lost[kind] {
			total += n
		}
		b.row("", "%s %s: %s", count(total), kind, reasons(c.Lost[kind]))
	}
	if c.Left > 0 {
		b.row("", "%s not reached yet: %s", count(c.Left), reasons(c.Why))
	}
	if c.Later > 0 {
		b.row("", "%s put off to later cycles: the window has no room for them", count(c.Later))
	}
}

// reasons formats counts by reason, the largest first.
func reasons(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var words []string
	for i, name := range names {
		if i == reasonsShown {
			words = append(words, "…")
			break
		}
		words = append(words, fmt.Sprintf("%s %s", count(counts[name]), name))
	}
	return strings.Join(words, ", ")
}

// lost formats counts by kind as "3 refused, 1 failed".
func lost(l map[string]int64) string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(l)) {
		words = append(words, fmt.Sprintf("%s %s", count(l[kind]), kind))
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// mostShown is how many failed batches, and how many waiting batches, are shown one by one.
const mostShown = 3

// uploads adds what is being sent, what the other batches wait for, and why batches and messages
// have not arrived.
func (b *builder) uploads(s *Status) {
	now := b.screen.Now
	failing, waiting := 0, 0
	for i := range s.Spool {
		is := &s.Spool[i]
		switch {
		case is.To != "":
			text := fmt.Sprintf("%s: %s of %s", is.ID, Size(is.Sent), Size(is.Bytes))
			if is.Bytes > 0 {
				text += fmt.Sprintf(" (%d %%)", is.Sent*100/is.Bytes)
			}
			if is.Rate > 0 {
				left := time.Duration(float64(is.Bytes-is.Sent) / float64(is.Rate) * float64(time.Second))
				text += fmt.Sprintf(", %s/s, %s left", Size(is.Rate), span(left))
			}
			b.row("sending", "%s, to %s", text, is.To)
		case is.Error != "":
			if failing++; failing <= mostShown {
				b.row("delayed", "%s: %s; again %s", is.ID, told(is.Error), until(is.Next, now))
			}
		case waiting == mostShown || is.Next.IsZero():
		case is.State == "":
			waiting++
			b.row("waits", "%s: to be sent %s", is.ID, until(is.Next, now))
		default:
			waiting++
			b.row("waits", "%s: the service has it (%s) and publishes it; asked again %s", is.ID, is.State, until(is.Next, now))
		}
	}
	if failing > mostShown {
		b.row("", "and %d more", failing-mostShown)
	}
	b.failures(s.Targets, "target")
	b.failures(s.Managers, "manager")
}

// failures adds the targets or managers that do not work now.
func (b *builder) failures(ways []config.TargetState, label string) {
	now := b.screen.Now
	for _, t := range ways {
		if t.Failures == 0 {
			continue
		}
		text := fmt.Sprintf("%s failed %s, at %s: %s", t.Name, plural(int64(t.Failures), "time", "times"), clock(t.Failed, now), told(t.Error))
		if t.Again.After(now) {
			text += "; again " + until(t.Again, now)
		}
		b.row(label, "%s", text)
	}
}

// told puts an error into one line: joined errors have several.
func told(err string) string { return strings.ReplaceAll(err, "\n", "; ") }

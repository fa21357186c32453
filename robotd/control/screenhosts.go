package control

import (
	"strings"

	"sheaf/robotd/crawl"
)

// column is a column of the table of hosts.
type column struct {
	title string
	width int
	left  bool // left-aligned
	text  func(*builder, *crawl.HostStatus) string
}

// hostColumns returns the columns after the name, the most important first.
func hostColumns() []column {
	return []column{
		{"STATE", 8, true, func(_ *builder, h *crawl.HostStatus) string { return string(h.State) }},
		{"PAGES", 9, false, func(_ *builder, h *crawl.HostStatus) string { return count(h.Pages.Total) }},
		{"LEFT", 9, false, func(_ *builder, h *crawl.HostStatus) string { return count(h.Left) }},
		{"NEXT", 9, false, func(b *builder, h *crawl.HostStatus) string {
			if h.Next.IsZero() {
				return "-"
			}
			if wait := h.Next.Sub(b.screen.Now); wait < 0 {
				return "due"
			} else if wait < day {
				return span(wait)
			}
			return clock(h.Next, b.screen.Now)
		}},
		{"WHY", 19, true, func(_ *builder, h *crawl.HostStatus) string { return h.Why }},
		{"/MIN", 6, false, func(_ *builder, h *crawl.HostStatus) string { return count(h.Pages.PerMinute) }},
		{"BYTES", 7, false, func(_ *builder, h *crawl.HostStatus) string { return Size(h.Bytes.Total) }},
		{"ADDRESS", 15, true, func(_ *builder, h *crawl.HostStatus) string { return h.Address }},
	}
}

const (
	day         = 24 * 60 * 60 * 1e9
	nameColumns = 32 // reserved for a long name before other columns are dropped
	mostName    = 60
)

// hosts adds the table of hosts, as far as the screen has room.
func (b *builder) hosts(s *Status) {
	all := s.PerHost
	room := len(all)
	if h := b.screen.Height; h > 0 {
		room = min(room, h-len(b.lines)-3) // a blank line, the titles, the cursor's line
	}
	if room < 1 {
		return
	}
	name := len("HOST")
	for i := range all[:room] {
		name = max(name, min(mostName, columns(readable(all[i].Name))))
	}
	cols := hostColumns()
	if w := b.screen.Width; w > 0 {
		for len(cols) > 0 && min(name, nameColumns)+rest(cols) > w {
			cols = cols[:len(cols)-1]
		}
		name = min(name, w-rest(cols))
	}
	b.add("", "")
	titles := pad("HOST", name)
	for _, c := range cols {
		titles += " " + c.align(c.title)
	}
	b.add(dim, titles)
	for i := range all[:room] {
		h := &all[i]
		line := pad(fit(readable(h.Name), name), name)
		for _, c := range cols {
			line += " " + c.align(fit(c.text(b, h), c.width))
		}
		color := ""
		switch h.State {
		case crawl.Visiting:
			color = bold
		case crawl.LeftOut:
			color = yellow
		case crawl.Done:
			color = dim
		}
		b.add(color, strings.TrimRight(line, " "))
	}
}

func rest(cols []column) (n int) {
	for _, c := range cols {
		n += 1 + c.width
	}
	return n
}

func (c column) align(text string) string {
	if c.left {
		return pad(text, c.width)
	}
	return right(text, c.width)
}

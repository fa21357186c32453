package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

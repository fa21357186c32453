package texts

import (
	"regexp"
	"slices"
	"strings"
)

// mainText returns the main text of a page: its blocks line by line, the cells of a row with a tab
// between them.
func (p *page) mainText() string {
	var b strings.Builder
	for i, one := range p.mainBlocks() {
		switch {
		case i == 0:
		case one.cell:
			b.WriteByte('\t')
		default:
			b.WriteByte('\n')
		}
		b.WriteString(one.text)
	}
	return b.String()
}

// mainBlocks returns the blocks of the main text. Each step is left out if it would leave too
// little: then the page has nothing else.
func (p *page) mainBlocks() []block {
	blocks := p.blocks
	if chars(blocks) == 0 {
		return nil
	}
	for _, step := range []struct {
		part int // what must be left, in percent of the characters
		of   func([]block) []block
	}{
		{20, func(all []block) []block { return without(all, func(b block) bool { return b.aside }) }},
		{40, func(all []block) []block { return without(all, func(b block) bool { return !b.main }) }},
		{30, trim},
	} {
		left := step.of(blocks)
		if chars(left)*100 >= chars(blocks)*step.part && len(left) > 0 {
			blocks = left
		}
	}
	return blocks
}

func without(all []block, drop func(block) bool) []block {
	return slices.DeleteFunc(slices.Clone(all), drop)
}

func chars(blocks []block) (n int) {
	for _, b := range blocks {
		n += b.chars
	}
	return n
}

const (
	sentence = 20  // characters of a block that is more than a name
	tail     = 400 // characters of the lines below a page that are not its text, together at most
)

// leads reports whether most of a block is links, or nothing but signs between links.
func (b block) leads() bool { return b.linked*2 > b.chars || b.chars == 0 }

// belowText matches what stands below the text of many pages.
var belowText = regexp.MustCompile(`(?i)copyright|\(c\)|©|all rights reserved|last (modified|updated|change)|最終更新|更新日|generated (by|on|at|with)|powered by|created using|webmaster`)

// trim leaves out the links before the first heading or sentence, and the links and lines such as
// a copyright behind the last.
func trim(all []block) []block {
	from := slices.IndexFunc(all, func(b block) bool { return !b.leads() && (b.heading || b.chars >= sentence) })
	if from < 0 {
		return nil
	}
	for from > 0 && !all[from-1].leads() { // such as a title that is no heading
		from--
	}
	to, cut := len(all), 0
	for i := len(all) - 1; i > from; i-- {
		b := all[i]
		if cut += b.chars; cut > tail || b.heading {
			break
		}
		if b.leads() && to == i+1 || belowText.MatchString(b.text) {
			to = i
		}
	}
	return all[from:to]
}

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
		part int // what must be left, in percent of the characters, unless it is enough
		of   func([]block) []block
	}{
		{10, func(all []block) []block { return without(all, func(b block) bool { return b.aside }) }},
		{40, func(all []block) []block { return without(all, func(b block) bool { return !b.main }) }},
		{30, trim},
	} {
		left := step.of(blocks)
		if n := chars(left); n >= enough || n > 0 && n*100 >= chars(blocks)*step.part {
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

// Lengths, in letters and digits.
const (
	sentence = 20  // of a block that is more than a name
	enough   = 100 // of a text that may be all that a page has
	tail     = 400 // of the lines below a text, together at most
)

// menu is the number of links in a row from which on they are a menu, and no list that the page is
// made for.
const menu = 200

// leads reports whether most of a block is links, or nothing but signs between links.
func (b block) leads() bool { return b.linked*2 > b.chars || b.chars == 0 }

// belowText matches footers, such as copyright and date lines.
var belowText = regexp.MustCompile(`(?i)copyright|\(c\)|©|all rights reserved|last (modified|updated|change)|最終更新|更新日|generated (by|on|at|with)|powered by|created using|webmaster|^\$(Date|Id)|^Index\(es\)`)

// trim leaves out the links before the first heading or sentence, and the links and lines such as
// a copyright behind the last.
func trim(all []block) []block {
	from := slices.IndexFunc(all, func(b block) bool { return !b.leads() && (b.heading || b.chars >= sentence) })
	if from < 0 {
		return nil
	}
	for from > 0 && (all[from-1].heading || !all[from-1].leads()) { // such as a title that is no heading
		from--
	}
	left := all[from:]
	for n := -1; n != len(left); {
		n = len(left)
		left = withoutLinks(withoutLines(left))
	}
	return left
}

// withoutLines leaves out lines that stand below the text, and what is behind them. If the first
// such line comes right below a heading, all stay.
func withoutLines(all []block) []block {
	to, below := len(all), 0
	for i := len(all) - 1; i > 0; i-- {
		b := all[i]
		if b.heading && to == i+1 {
			return all
		}
		if below += b.chars; b.heading || below > tail {
			break
		}
		if belowText.MatchString(b.text) {
			to = i
		}
	}
	return all[:to]
}

// withoutLinks leaves out the links behind the text: a few of them, or a menu of a whole site.
func withoutLinks(all []block) []block {
	to := len(all)
	for to > 0 && all[to-1].leads() && !all[to-1].heading {
		to--
	}
	if n := chars(all[to:]); len(all)-to >= menu || n <= tail && n*2 <= chars(all[:to]) {
		return all[:to]
	}
	return all
}

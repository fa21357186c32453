package texts

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/encoding/japanese"
)

// signs counts what tells languages apart.
type signs struct {
	latin, kana, hangul, greek, cyrillic, hebrew, arabic, thai int // letters

	han   []rune          // kanji
	signs int             // of other characters than those of ASCII
	words [len(usual)]int // how many of the usual words of a language
}

// usual are words that every text of a language has, and texts of other languages seldom have.
var usual = [...]struct{ language, words string }{
	{"en", "the of and to is in that for with this are be as not you on it from by or can"},
	{"fr", "le la les des et est une du dans pour qui sur pas vous au avec par cette sont"},
	{"de", "der die das und ist nicht ein eine den mit von auf für dem werden sie oder"},
	{"es", "el los las que en una por con para del como su este puede"},
	{"it", "il di che per una del con non sono della più nel questo gli"},
	{"pt", "não uma para com por em mais como pelo são também você sua que"},
	{"nl", "het een van niet voor met zijn aan door deze bij ook wordt kan"},
	{"pl", "nie się jest że jak dla przez oraz być tym lub które ten może"},
	{"tr", "ve bir bu için ile olarak olan daha çok değil kadar sonra gibi"},
}

var usualOf = func() map[string][]int {
	m := make(map[string][]int)
	for i, u := range usual {
		for word := range strings.FieldsSeq(u.words) {
			m[word] = append(m[word], i)
		}
	}
	return m
}()

// chineseOnly are characters that are frequent in Chinese and hardly ever stand in Japanese text.
const chineseOnly = "的了这們们这個个吗呢啊她您您说說没沒还還过過对對时時会會么麼為为从從让讓给給吧哪谁誰你他"

// looked is how many characters of the text are counted.
const looked = 20_000

// languageOf returns the language of a page as BCP 47 has it, such as ja; empty if it is not known.
// The language is judged by the main text, or by all text if the main text is too short to tell.
// charset is the page's.
func (p *page) languageOf(charset string) string {
	var s signs
	s.count(p.title)
	of := p.mainBlocks()
	if chars(of) < enough {
		of = p.blocks
	}
	s.countAll(of)
	if s.kana == 0 && len(s.han) > 0 { // kanji are Japanese where the page is
		var all signs
		if all.countAll(p.blocks); all.kana*20 > len(all.han) {
			s.kana = len(s.han)
		}
	}
	return s.judge(p.declared(), charset)
}

func (s *signs) countAll(blocks []block) {
	n := 0
	for _, b := range blocks {
		if s.count(b.text); n > looked {
			return
		}
		n += b.chars
	}
}

// declared returns the language of the page's lang, without region and script.
func (p *page) declared() string {
	lang, _, _ := strings.Cut(strings.ReplaceAll(p.lang, "_", "-"), "-")
	if lang == "jp" {
		return "ja"
	}
	return strings.TrimSpace(lang)
}

// count adds a text's letters, other characters and usual words to s.
func (s *signs) count(text string) {
	var word [24]byte
	n := 0 // bytes of the word; more than word has room for: it is none of the usual ones
	for _, r := range text {
		switch c := byte(r) | 0x20; {
		case r < 0x80 && 'a' <= c && c <= 'z':
			s.latin++
			if n++; n <= len(word) {
				word[n-1] = c
			}
			continue
		case r >= 0x80 && r < 0x250 && unicode.IsLetter(r):
			s.latin++
			if n+2 <= len(word) {
				n += copy(word[n:], string(unicode.ToLower(r)))
			} else {
				n = len(word) + 1
			}
			continue
		case r >= 0x80:
			s.script(r)
		}
		s.word(word[:min(n, len(word))], n)
		n = 0
	}
	s.word(word[:min(n, len(word))], n)
}

// word counts a word of n bytes if it is a usual one. If n is more than the length of word, which
// then has only the beginning, it is none.
func (s *signs) word(word []byte, n int) {
	if n == len(word) {
		for _, i := range usualOf[string(word)] {
			s.words[i]++
		}
	}
}

// script counts a character that is not Latin.
func (s *signs) script(r rune) {
	switch {
	case r == '・' || r == 'ー':
	case r >= 0x3041 && r <= 0x30fe || r >= 0xff66 && r <= 0xff9f:
		s.kana++
	case r >= 0x4e00 && r < 0xa000 || r >= 0x3400 && r < 0x4dc0 || r == '々' || r >= 0x20000 && r < 0x30000:
		s.han = append(s.han, r)
	case r >= 0xac00 && r < 0xd7b0:
		s.hangul++
	case unicode.Is(unicode.Greek, r):
		s.greek++
	case unicode.Is(unicode.Cyrillic, r):
		s.cyrillic++
	case unicode.Is(unicode.Hebrew, r):
		s.hebrew++
	case unicode.Is(unicode.Arabic, r):
		s.arabic++
	case unicode.Is(unicode.Thai, r):
		s.thai++
	default:
		s.signs++
	}
}

// ofCharset are the languages of charsets that one language alone uses.
var ofCharset = map[string]string{
	"shift_jis": "ja", "euc-jp": "ja", "iso-2022-jp": "ja", "euc-kr": "ko", "big5": "zh", "gbk": "zh", "gb18030": "zh",
}

// judge returns the language of a text with these signs.
func (s *signs) judge(declared, charset string) string {
	// A character of Chinese, Japanese or Korean says as much as some letters.
	const letters = 3
	east := letters * (s.kana + len(s.han) + s.hangul)
	best, words := "", 0
	for i, n := range s.words {
		if n > words {
			best, words = usual[i].language, n
		}
	}
	// Prose has a usual word for each 15 letters, and text of names and code one for each 60.
	prose := words*60 > s.latin
	mixed := s.latin / 3 // where the text is in two languages, what is declared counts
	if is := s.east(declared, charset); declared == is {
		mixed = s.latin / 5
	} else if declared != "" {
		mixed = s.latin / 2
	}
	switch {
	case east > mixed, east > s.latin/20 && !prose:
		return s.east(declared, charset)
	case s.latin == 0 || s.greek+s.cyrillic+s.hebrew+s.arabic+s.thai > s.latin/4:
		if lang := s.others(declared); lang != "" {
			return lang
		}
	}
	switch of := ofCharset[charset]; {
	case prose && words >= 3:
		return best
	case of != "" && s.signs > 0: // damaged text
		return of
	case words >= 3 && words*240 > s.latin:
		return best
	case declared != "":
		return declared
	case words > 0:
		return best
	default:
		return of
	}
}

// others returns the language of a text in Cyrillic, Greek, Hebrew, Arabic or Thai letters: the
// declared language if it has that script, or else the script's most frequent; empty without such
// letters.
func (s *signs) others(declared string) string {
	most, languages := 0, ""
	for _, script := range []struct {
		letters   int
		languages string // the first is the most frequent
	}{{s.cyrillic, "ru uk bg sr be mk kk"}, {s.greek, "el"}, {s.hebrew, "he yi"}, {s.arabic, "ar fa ur"}, {s.thai, "th"}} {
		if script.letters > most {
			most, languages = script.letters, script.languages
		}
	}
	if declared != "" && slices.Contains(strings.Fields(languages), declared) {
		return declared
	}
	first, _, _ := strings.Cut(languages, " ")
	return first
}

// east returns which of Chinese, Japanese and Korean a text is.
func (s *signs) east(declared, charset string) string {
	switch {
	case s.hangul > s.kana && s.hangul > len(s.han)/4:
		return "ko"
	case s.kana*20 > len(s.han):
		return "ja"
	case ofCharset[charset] != "":
		return ofCharset[charset]
	}
	foreign, coder := 0, japanese.EUCJP.NewEncoder()
	for _, r := range s.han[:min(len(s.han), judged)] {
		if _, err := coder.String(string(r)); err != nil || strings.ContainsRune(chineseOnly, r) {
			foreign++
		}
	}
	switch {
	case foreign*40 > min(len(s.han), judged):
		return "zh"
	case declared == "zh" || declared == "ko":
		return declared
	}
	return "ja"
}

// judged is how many kanji are looked at one by one, where there are no kana.
const judged = 1000

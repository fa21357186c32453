package texts

import (
	"strings"
	"unicode"
)

// signs counts what tells languages apart.
type signs struct {
	kana, han, hangul, latin, cyrillic, thai, arabic, hebrew, greek int
	words                                                           [len(usual)]int // how many of the words of a language
	chinese                                                         int             // characters that Japanese has not, or seldom
}

// usual are words that every text of a language has, and others seldom.
var usual = [...]struct{ language, words string }{
	{"en", "the of and to is in that for with this are be as not you on it from by or can"},
	{"fr", "le la les des et est une du que dans pour qui sur pas vous au avec par cette sont"},
	{"de", "der die das und ist nicht ein eine den mit von auf für zu dem werden sie im wird oder"},
	{"es", "el la los que en y de una por con para las del se es como su al este puede"},
	{"it", "il la di che per una del con non sono della le è dei alla più nel si questo gli"},
	{"pt", "o a os que não uma para com por do da em se mais como dos as ao seu pode"},
	{"nl", "de het een van en is dat niet te op voor met zijn aan door deze bij ook wordt kan"},
	{"pl", "nie się jest na do że jak to dla przez oraz być tym lub od po które są ten może"},
	{"tr", "ve bir bu için ile olarak da de gibi olan daha veya çok her ise değil kadar sonra ne"},
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
// charset is the one in which the page is written.
func (p *page) languageOf(charset string) string {
	var s signs
	s.count(p.title)
	n := 0
	for _, b := range p.blocks {
		if s.count(b.text); n > looked {
			break
		}
		n += b.chars
	}
	return s.judge(p.declared(), charset)
}

// declared returns the main part of the page's lang.
func (p *page) declared() string {
	lang, _, _ := strings.Cut(strings.ReplaceAll(p.lang, "_", "-"), "-")
	if lang == "jp" {
		return "ja"
	}
	return strings.TrimSpace(lang)
}

// count counts the signs of a text.
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
		case r >= 0x250:
			s.script(r)
		}
		s.word(word[:min(n, len(word))], n)
		n = 0
	}
	s.word(word[:min(n, len(word))], n)
}

// word counts a word of n bytes.
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
		s.han++
		if strings.ContainsRune(chineseOnly, r) {
			s.chinese++
		}
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
	latin := s.latin
	east := letters * (s.kana + s.han + s.hangul)
	best, words := "", 0
	for i, n := range s.words {
		if n > words {
			best, words = usual[i].language, n
		}
	}
	switch {
	case east > 0 && (s.east(declared, charset) == declared && east*20 > latin || east*5 > latin || words*12 < latin/20 && east*20 > latin):
		return s.east(declared, charset)
	case s.cyrillic > latin/4 && s.cyrillic > 20:
		if declared == "uk" || declared == "bg" || declared == "sr" || declared == "be" || declared == "mk" {
			return declared
		}
		return "ru"
	case s.greek > latin/4 && s.greek > 20:
		return "el"
	case s.hebrew > latin/4 && s.hebrew > 20:
		return "he"
	case s.thai > latin/4 && s.thai > 20:
		return "th"
	case s.arabic > latin/4 && s.arabic > 20:
		if declared == "fa" || declared == "ur" {
			return declared
		}
		return "ar"
	case words >= 3 && words*60 > latin/4:
		return best
	case declared != "":
		return declared
	case words > 0:
		return best
	}
	return ofCharset[charset]
}

// east returns which of Chinese, Japanese and Korean a text is.
func (s *signs) east(declared, charset string) string {
	switch {
	case s.hangul > s.kana && s.hangul > s.han/4:
		return "ko"
	case s.kana*20 > s.han:
		return "ja"
	case ofCharset[charset] != "":
		return ofCharset[charset]
	case s.chinese*40 > s.han:
		return "zh"
	case declared == "ja" || declared == "zh" || declared == "ko":
		return declared
	}
	if s.kana > 0 {
		return "ja"
	}
	return "zh"
}

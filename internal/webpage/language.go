package webpage

import (
	_ "embed"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// languageField names the query parameter and the cookie by which a reader chooses a language.
const languageField = "lang"

// Language chooses between English and Japanese: by the query's lang, the reader's earlier choice,
// or what the browser asks for.
func Language(r *http.Request) string {
	chosen := r.URL.Query().Get(languageField)
	if c, err := r.Cookie(languageField); chosen == "" && err == nil {
		chosen = c.Value
	}
	if chosen == "en" || chosen == "ja" {
		return chosen
	}
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return "en"
	}
	for _, tag := range wanted {
		switch base, _ := tag.Base(); base.String() {
		case "ja", "en":
			return base.String()
		}
	}
	return "en"
}

// japaneseText has a line for each English text of the pages: the text, a tab, and its Japanese.
//
//go:embed japanese.txt
var japaneseText string

var japanese = readDictionary(japaneseText)

func readDictionary(text string) map[string]string {
	d := make(map[string]string)
	for line := range strings.Lines(text) {
		if english, translated, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			d[english] = translated
		}
	}
	return d
}

// T gives an English text in the page's language, with values in place of its verbs as by
// fmt.Sprintf.
func (p Page) T(english string, values ...any) string {
	text := english
	if p.Lang == "ja" {
		if translated, ok := japanese[english]; ok {
			text = translated
		}
	}
	if len(values) == 0 {
		return text
	}
	return fmt.Sprintf(text, values...)
}

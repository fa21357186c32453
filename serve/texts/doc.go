// Package texts takes out of a page what an index of words needs: title, main text, language,
// charset, and a fingerprint for near duplicates.
//
// # Main text
//
// A page is read once, token by token, into blocks: paragraphs, headings, cells, lines. Of each
// block it is known how much of it lies in links, and whether an element around it is for finding
// one's way by its name, class or role, such as nav and sidebar. The main text is what is left
// without these blocks, and without the rows of links at the beginning and at the end. Of a page
// that has nothing but links, all is main text.
//
// No tree is built. So the time grows with the length alone, however elements are nested, and of
// a page no more than MaxBody bytes are looked at.
//
// # Language
//
// The language is judged by the first HeadBytes of the page: by its script, by the words that every
// text of some languages has, and, if these leave it open, by what is declared (lang, charset).
// Text with kana is Japanese, unless there is little of it in a text of another language. Text with
// kanji alone is Japanese or Chinese by its charset, its lang and its characters.
package texts

// Version is the version of the extraction. Raise it when its results change: stored texts are then
// made again.
const Version = 1

// Limits of what is looked at of a body, in bytes.
const (
	HeadBytes = 64 << 10 // for language and charset
	MaxBody   = 2 << 20  // for the text
)

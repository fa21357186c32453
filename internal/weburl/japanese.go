package weburl

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/width"
)

// Browsers encode Japanese by the WHATWG encoding standard. This file handles the differences of
// golang.org/x/text: characters that are replaced by others, the choice between two Shift_JIS codes
// for the same character, and the rows of JIS X 0212, which EUC-JP only decodes.

// standIn replaces the characters that an encoding writes as other characters.
func standIn(s string, enc encoding.Encoding) string {
	switch enc {
	case japanese.ShiftJIS, japanese.EUCJP:
		return strings.NewReplacer("\u2212", "\uff0d", "\u00a5", `\`, "\u203e", "~").Replace(s)
	case japanese.ISO2022JP:
		s = strings.ReplaceAll(s, "\u2212", "\uff0d")
		if strings.IndexFunc(s, halfKatakana) < 0 {
			return s
		}
		var b strings.Builder
		for _, r := range s {
			if !halfKatakana(r) {
				b.WriteRune(r)
				continue
			}
			b.WriteString(width.Widen.String(string(r)))
		}
		return b.String()
	}
	return s
}

func halfKatakana(r rune) bool { return 0xff61 <= r && r <= 0xff9f }

// writable reports whether browsers would write b, the encoding of one character by x/text.
func writable(b string, enc encoding.Encoding) bool {
	return enc != japanese.EUCJP || !strings.HasPrefix(b, "\x8f")
}

// asWritten changes x/text's encoding b of a text to that of browsers. In Shift_JIS, browsers write
// the characters of rows ED and EE (chosen by NEC) by their duplicates in rows FA to FC (IBM's).
func asWritten(b string, enc encoding.Encoding) string {
	if enc != japanese.ShiftJIS {
		return b
	}
	out := []byte(b)
	for i := 0; i+1 < len(out); i++ {
		lead := out[i]
		if lead < 0x80 || 0xa1 <= lead && lead <= 0xdf {
			continue
		}
		if lead == 0xed || lead == 0xee {
			out[i], out[i+1] = doubleOf(lead, out[i+1])
		}
		i++
	}
	return string(out)
}

// doubleOf returns IBM's code for the character with this code of NEC. Both have the kanji in the
// same order, but IBM has the symbols before the kanji and NEC after them.
func doubleOf(lead, trail byte) (byte, byte) {
	const row = 188
	at := int(lead-0xed)*row + int(trail) - 0x40
	if trail > 0x7f {
		at--
	}
	switch {
	case at < 360: // kanji
		at += 28
	case 362 <= at && at < 372: // small roman numbers
		at -= 362
	case at >= 373: // broken bar, apostrophe, quotation mark
		at += 21 - 373
	default: // the not sign, which is elsewhere in IBM's list
		return lead, trail
	}
	lead, trail = byte(0xfa+at/row), byte(0x40+at%row)
	if trail >= 0x7f {
		trail++
	}
	return lead, trail
}

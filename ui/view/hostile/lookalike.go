package hostile

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"

	"github.com/holdpoint/holdpoint/ui/text"
)

// lastPrototype is the last code point that looks like ASCII.
const lastPrototype = 0x1FFFF

// prototypes returns the ASCII text that characters outside ASCII look like: by compatibility (NFKC), which programs may apply to their
// input, and by the confusables of UTS #39.
var prototypes = sync.OnceValue(func() map[rune]string { //nolint:gochecknoglobals // a table, made when first needed
	like := map[rune]string{'\u3002': ".", '\uFF61': "."} // IDNA reads them as the dot of a host
	for r := rune(utf8.RuneSelf); r <= lastPrototype; r++ {
		if !isVisible(r) {
			continue
		}
		letter := string(r)
		if plain := norm.NFKC.String(letter); plain != letter && isASCII(plain) {
			like[r] = plain
		} else if plain := confusable.GetReplacement(r); plain != "" && isASCII(plain) {
			like[r] = plain
		}
	}
	return like
})

// letterLike returns the ASCII text that a letter or digit looks like. It returns "" if there is none, or if the difference is easy to
// see, as in the letters of Western and Central European languages.
func letterLike(r rune) string {
	if r < utf8.RuneSelf || 0xC0 <= r && r <= 0x17F && r != 'ı' && r != 'ſ' || r == 'ª' || r == 'º' {
		return ""
	}
	like := prototypes()[r]
	if strings.ContainsFunc(like, func(r rune) bool { return !isAlphanumeric(r) }) {
		return ""
	}
	return like
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// replaceLookalikes replaces each letter of a word by the ASCII text that it looks like, and reports whether it replaced any.
func replaceLookalikes(word string) (plain string, found bool) {
	var b strings.Builder
	for _, r := range word {
		if like := letterLike(r); like != "" {
			b.WriteString(like)
			found = true
		} else {
			b.WriteRune(r)
		}
	}
	return b.String(), found
}

// replaceForeignDigits replaces the digits of other scripts by 0 to 9. It returns the script of the last one, and reports whether there was
// any.
func replaceForeignDigits(word string) (plain, script string, found bool) {
	plain = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) || isASCII(norm.NFKC.String(string(r))) {
			return r
		}
		if found, script = true, scriptOf(r); script == "" { // Arabic digits belong to several scripts
			script = "Arabic"
		}
		return '0' + digitValue(r)
	}, word)
	return plain, script, found
}

// digitValue returns the value of a decimal digit. Scripts have digits in runs of ten that begin with zero.
func digitValue(r rune) rune {
	for _, span := range unicode.Nd.R16 {
		if rune(span.Lo) <= r && r <= rune(span.Hi) {
			return (r - rune(span.Lo)) % 10
		}
	}
	for _, span := range unicode.Nd.R32 {
		if lo, hi := rune(span.Lo), rune(span.Hi); lo <= r && r <= hi { //nolint:gosec // G115: code points fit
			return (r - lo) % 10
		}
	}
	return 0
}

// judgeSymbol returns why a character that is no letter may deceive, or no text. It accepts the symbols of honest prose:
// quotes, dashes between words, an ellipsis, the punctuation of other scripts.
func judgeSymbol(r, before, after rune, spaced bool) text.Message {
	if r < utf8.RuneSelf {
		return text.Message{}
	}
	like := prototypes()[r]
	if like == "" || isHarmlessSymbol(r, like) {
		return text.Message{}
	}
	switch {
	case r != '‐' && like == "-" && r < 0xFE00:
		// A dash looks like the start of an option if a letter follows it directly and none precedes it.
		dash := after == '-' || prototypes()[after] == "-"
		if spaced || !dash && (!isAlphanumeric(after) || unicode.IsDigit(after)) {
			return text.Message{}
		}
	case r == '⁄' && unicode.IsDigit(before) && unicode.IsDigit(after):
		return text.Message{}
	case (r >= 0x3000 || r < 0x2000) && (hasOwnPunctuation(before) || hasOwnPunctuation(after)):
		return text.Message{}
	}
	if isPipe(r) {
		like = strings.Repeat("|", len(like))
	}
	return text.CharacterSymbol(like, fmt.Sprintf("U+%04X", r))
}

// isHarmlessSymbol reports whether a symbol cannot be mistaken for another.
func isHarmlessSymbol(r rune, like string) bool {
	switch {
	case isPipe(r):
		return false
	case unicode.Is(unicode.No, r), '⁺' <= r && r <= '₎': // raised and lowered
		return true
	case strings.ContainsFunc(like, isAlphanumeric): // №, ™, ∪
		return true
	case strings.Trim(like, "'\"`") == "", strings.Trim(like, "!?,") == "", like == "...":
		return true
	}
	return strings.Trim(like, "<>") == "" && r < 0xFE00
}

func isPipe(r rune) bool { return r == '∣' || r == '∥' || r == '⏽' || r == '￨' }

// hasOwnPunctuation reports whether a character belongs to a script that has its own punctuation.
func hasOwnPunctuation(r rune) bool {
	if '、' <= r && r <= '〟' {
		return true
	}
	switch scriptOf(r) {
	case "", "Latin", "Cyrillic", "Coptic", "Cherokee", "Lisu":
		return false
	}
	return unicode.IsLetter(r) || unicode.IsMark(r)
}

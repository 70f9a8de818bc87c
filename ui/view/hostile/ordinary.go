package hostile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	nonJoiner = '\u200C'
	joiner    = '\u200D'
	keycap    = '\u20E3'
)

// isOrdinary reports whether honest texts have the invisible character at this position in such surroundings: a no-break space, the
// selectors and joiners of emoji, joiners within words of scripts that need them.
func isOrdinary(text string, at int, r rune) bool {
	before, beforeSize := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[min(len(text), at+utf8.RuneLen(r)):])
	switch r {
	case '\u00A0', '\u202F':
		return !isSpaceLike(before) && !isSpaceLike(after)
	case '\u2007', '\u2009', '\u200A':
		return unicode.IsDigit(before) && (unicode.IsDigit(after) || unicode.IsLetter(after) || unicode.IsSymbol(after) || after == '%')
	case '\u3000':
		return before != r && after != r && (hasOwnPunctuation(before) || hasOwnPunctuation(after))
	case '\uFE0E', '\uFE0F':
		return isEmojiBase(before) || after == keycap && isKeycapBase(before)
	case keycap:
		previous, _ := utf8.DecodeLastRuneInString(text[:at-beforeSize])
		return before == '\uFE0F' && isKeycapBase(previous)
	case '\u200B':
		return hasNoSpaces(scriptOf(before)) && hasNoSpaces(scriptOf(after))
	case joiner, nonJoiner:
		if r == joiner && joinsEmoji(text[:at], after) {
			return true
		}
		return needsJoiners(scriptOf(before)) && isInWord(after) || needsJoiners(scriptOf(after)) && isInWord(before)
	}
	return tagFirst <= r && r <= tagLast && isInFlag(text, at)
}

func isSpaceLike(r rune) bool { return unicode.Is(unicode.Zs, r) && r != ' ' }

// isEmojiBase reports whether a selector may follow r.
func isEmojiBase(r rune) bool {
	return r >= 0xA9 && unicode.IsOneOf([]*unicode.RangeTable{unicode.So, unicode.Sm, unicode.Sk}, r) || strings.ContainsRune("‼⁉〰〽", r)
}

func isKeycapBase(r rune) bool { return '0' <= r && r <= '9' || r == '#' || r == '*' }

// joinsEmoji reports whether a joiner between a text and the next character joins two emoji.
func joinsEmoji(before string, after rune) bool {
	before = strings.TrimSuffix(before, "\uFE0F")
	last, _ := utf8.DecodeLastRuneInString(before)
	return isEmojiBase(last) && isEmojiBase(after)
}

// isJoiner reports whether a text ends with a joiner.
func isJoiner(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	return last == joiner || last == nonJoiner
}

// needsJoiners reports whether words of a script are written with joiners.
func needsJoiners(script string) bool {
	switch script {
	case "Arabic", "Bengali", "Devanagari", "Gujarati", "Gurmukhi", "Kannada", "Khmer", "Malayalam", "Mongolian", "Myanmar", "Oriya", "Sinhala",
		"Syriac", "Tamil", "Telugu", "Thaana", "Tibetan":
		return true
	}
	return false
}

// hasNoSpaces reports whether a script has no spaces between words, so that zero-width spaces say where lines may break.
func hasNoSpaces(script string) bool {
	switch script {
	case "Khmer", "Lao", "Myanmar", "Thai", "Tibetan":
		return true
	}
	return false
}

// flags are the only emoji with tag characters: England, Scotland, Wales.
var flags = []string{ //nolint:gochecknoglobals // a table
	"\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
	"\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F",
	"\U0001F3F4\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F",
}

// isInFlag reports whether the position is within a flag.
func isInFlag(text string, at int) bool {
	for _, flag := range flags {
		from := strings.LastIndex(text[max(0, at-len(flag)):at], flag[:4])
		if from += max(0, at-len(flag)); from >= 0 && strings.HasPrefix(text[from:], flag) && at < from+len(flag) {
			return true
		}
	}
	return false
}

// moveOffJoiner moves the position where a text is cut, so that it is not beside a joiner, selector or mark, which would seem to
// stand alone.
func moveOffJoiner(text string, at int) int {
	const longCluster = 16
	for range longCluster {
		after, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || !isJoiner(text[:at]) && after != joiner && after != nonJoiner && !unicode.IsMark(after) {
			break
		}
		at += size
	}
	return at
}

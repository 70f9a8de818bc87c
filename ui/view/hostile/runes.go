package hostile

import (
	"fmt"
	"unicode"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// isVisible reports whether a reader sees r as itself. Other characters become chips.
func isVisible(r rune) bool { return plain.IsVisible(r) }

const (
	tagFirst  = rune(0xE0000)
	tagLast   = rune(0xE007F)
	tagOffset = rune(0xE0000) // from a letter to its tag character

	maxRowOfMarks = 4 // combining marks; more in a row only cover other lines
)

// Labels of chips that are [Piece.Harmless].
const (
	labelTab    = `\t`
	labelReturn = `\r`
	labelSpace  = "space"
	labelEmpty  = "empty"
)

// chipOf returns the chip of an invisible character.
func chipOf(r rune) Piece {
	switch r {
	case '\t':
		return Piece{Kind: Chip, Text: labelTab, Note: "tab", Count: 1}
	case '\r':
		return Piece{Kind: Chip, Text: labelReturn, Note: "carriage return", Count: 1}
	}
	return Piece{Kind: Chip, Text: fmt.Sprintf("U+%04X", r), Note: describeRune(r), Count: 1}
}

// chipOfByte returns the chip of a byte that is not UTF-8.
func chipOfByte(b byte) Piece {
	return Piece{Kind: Chip, Text: fmt.Sprintf(`\x%02X`, b), Note: "byte that is not UTF-8", Count: 1}
}

func describeRune(r rune) string {
	if name, ok := names[r]; ok {
		return name
	}
	switch {
	case r > tagFirst && r <= tagLast && r-tagOffset >= ' ' && r-tagOffset < 0x7f:
		return fmt.Sprintf("hidden tag character for “%c”", r-tagOffset)
	case unicode.Is(unicode.Variation_Selector, r):
		return "variation selector"
	case unicode.IsMark(r):
		return "combining mark"
	case unicode.Is(unicode.Zs, r):
		return "space that is not a plain space"
	case unicode.IsControl(r):
		return "control character"
	case unicode.Is(unicode.Cf, r):
		return "format character"
	case unicode.Is(unicode.Co, r):
		return "private use character"
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return "filler that shows nothing"
	}
	return "unassigned character"
}

var names = map[rune]string{ //nolint:gochecknoglobals // a table
	0x00:     "null",
	0x07:     "bell",
	0x08:     "backspace",
	0x1B:     "escape, which starts a terminal command",
	0x7F:     "delete",
	0x85:     "next line",
	0x9B:     "control sequence introducer",
	0xA0:     "no-break space",
	0xAD:     "soft hyphen",
	0x034F:   "combining grapheme joiner",
	0x061C:   "Arabic letter mark",
	0x115F:   "Hangul filler",
	0x1160:   "Hangul filler",
	0x180E:   "Mongolian vowel separator",
	0x200B:   "zero-width space",
	0x200C:   "zero-width non-joiner",
	0x200D:   "zero-width joiner",
	0x200E:   "left-to-right mark",
	0x200F:   "right-to-left mark",
	0x2028:   "line separator",
	0x2029:   "paragraph separator",
	0x202A:   "left-to-right embedding",
	0x202B:   "right-to-left embedding",
	0x202C:   "end of embedding or override",
	0x202D:   "left-to-right override",
	0x202E:   "right-to-left override",
	0x202F:   "narrow no-break space",
	0x2060:   "word joiner",
	0x2061:   "invisible function application",
	0x2062:   "invisible times",
	0x2063:   "invisible separator",
	0x2064:   "invisible plus",
	0x2066:   "left-to-right isolate",
	0x2067:   "right-to-left isolate",
	0x2068:   "first strong isolate",
	0x2069:   "end of isolate",
	0x2800:   "blank Braille pattern",
	0x3000:   "ideographic space",
	0x3164:   "Hangul filler",
	0xFEFF:   "zero-width no-break space",
	0xFFA0:   "Hangul filler",
	0xFFFC:   "object replacement",
	0x13441:  "blank Egyptian hieroglyph",
	0x13442:  "blank Egyptian hieroglyph",
	0x16FE4:  "Khitan filler",
	0x1D159:  "null notehead, which shows nothing",
	tagFirst: "hidden tag character",
	0xE0001:  "language tag",
	tagLast:  "end of hidden tag",
}

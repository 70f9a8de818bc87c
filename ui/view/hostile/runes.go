package hostile

import (
	"fmt"
	"unicode"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/ui/text"
)

// isVisible reports whether a reader sees r as itself. Other characters become chips.
func isVisible(r rune) bool { return plain.IsVisible(r) }

const (
	tagFirst  = rune(0xE0000)
	tagLast   = rune(0xE007F)
	tagOffset = rune(0xE0000) // from a letter to its tag character

	maxRowOfMarks = 4 // combining marks; more in a row only cover other lines
)

// Labels of chips that are [Piece.Harmless]. LabelSpace and LabelEmpty are words.
const (
	labelTab    = `\t`
	labelReturn = `\r`
	LabelSpace  = "space"
	LabelEmpty  = "empty"
)

// chipOf returns the chip of an invisible character.
func chipOf(r rune) Piece {
	switch r {
	case '\t':
		return Piece{Kind: Chip, Text: labelTab, Note: text.CharacterTab(), Count: 1}
	case '\r':
		return Piece{Kind: Chip, Text: labelReturn, Note: text.CharacterCarriageReturn(), Count: 1}
	}
	return Piece{Kind: Chip, Text: fmt.Sprintf("U+%04X", r), Note: describeRune(r), Count: 1}
}

// chipOfByte returns the chip of a byte that is not UTF-8.
func chipOfByte(b byte) Piece {
	return Piece{Kind: Chip, Text: fmt.Sprintf(`\x%02X`, b), Note: text.CharacterInvalidByte(), Count: 1}
}

func describeRune(r rune) text.Message {
	if name, ok := names[r]; ok {
		return name
	}
	switch {
	case r > tagFirst && r <= tagLast && r-tagOffset >= ' ' && r-tagOffset < 0x7f:
		return text.CharacterTagFor(string(r - tagOffset))
	case unicode.Is(unicode.Variation_Selector, r):
		return text.CharacterVariationSelector()
	case unicode.IsMark(r):
		return text.CharacterCombiningMark()
	case unicode.Is(unicode.Zs, r):
		return text.CharacterOtherSpace()
	case unicode.IsControl(r):
		return text.CharacterControl()
	case unicode.Is(unicode.Cf, r):
		return text.CharacterFormat()
	case unicode.Is(unicode.Co, r):
		return text.CharacterPrivateUse()
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return text.CharacterFiller()
	}
	return text.CharacterUnassigned()
}

// describeSecret says why a value is hidden.
func describeSecret(isMarked bool) text.Message {
	if isMarked {
		return text.CharacterSecretMarked()
	}
	return text.CharacterSecretName()
}

var names = map[rune]text.Message{ //nolint:gochecknoglobals // a table
	0x00:     text.CharacterNullCharacter(),
	0x07:     text.CharacterBell(),
	0x08:     text.CharacterBackspace(),
	0x1B:     text.CharacterEscape(),
	0x7F:     text.CharacterDelete(),
	0x85:     text.CharacterNextLine(),
	0x9B:     text.CharacterControlSequence(),
	0xA0:     text.CharacterNoBreakSpace(),
	0xAD:     text.CharacterSoftHyphen(),
	0x034F:   text.CharacterGraphemeJoiner(),
	0x061C:   text.CharacterArabicMark(),
	0x115F:   text.CharacterHangulFiller(),
	0x1160:   text.CharacterHangulFiller(),
	0x180E:   text.CharacterMongolianSeparator(),
	0x200B:   text.CharacterZeroWidthSpace(),
	0x200C:   text.CharacterZeroWidthNonJoiner(),
	0x200D:   text.CharacterZeroWidthJoiner(),
	0x200E:   text.CharacterLeftToRightMark(),
	0x200F:   text.CharacterRightToLeftMark(),
	0x2028:   text.CharacterLineSeparator(),
	0x2029:   text.CharacterParagraphSeparator(),
	0x202A:   text.CharacterLeftToRightEmbedding(),
	0x202B:   text.CharacterRightToLeftEmbedding(),
	0x202C:   text.CharacterEndOfEmbedding(),
	0x202D:   text.CharacterLeftToRightOverride(),
	0x202E:   text.CharacterRightToLeftOverride(),
	0x202F:   text.CharacterNarrowNoBreakSpace(),
	0x2060:   text.CharacterWordJoiner(),
	0x2061:   text.CharacterInvisibleFunction(),
	0x2062:   text.CharacterInvisibleTimes(),
	0x2063:   text.CharacterInvisibleSeparator(),
	0x2064:   text.CharacterInvisiblePlus(),
	0x2066:   text.CharacterLeftToRightIsolate(),
	0x2067:   text.CharacterRightToLeftIsolate(),
	0x2068:   text.CharacterFirstStrongIsolate(),
	0x2069:   text.CharacterEndOfIsolate(),
	0x2800:   text.CharacterBrailleBlank(),
	0x3000:   text.CharacterIdeographicSpace(),
	0x3164:   text.CharacterHangulFiller(),
	0xFEFF:   text.CharacterZeroWidthNoBreakSpace(),
	0xFFA0:   text.CharacterHangulFiller(),
	0xFFFC:   text.CharacterObjectReplacement(),
	0x13441:  text.CharacterEgyptianBlank(),
	0x13442:  text.CharacterEgyptianBlank(),
	0x16FE4:  text.CharacterKhitanFiller(),
	0x1D159:  text.CharacterNullNotehead(),
	tagFirst: text.CharacterTag(),
	0xE0001:  text.CharacterLanguageTag(),
	tagLast:  text.CharacterEndOfTag(),
}

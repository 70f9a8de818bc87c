package plain

import (
	"unicode"
	"unicode/utf8"
)

// blank has the characters that Unicode counts as letters, marks or symbols although fonts draw nothing for them. Unicode has
// no property for them.
var blank = &unicode.RangeTable{ //nolint:gochecknoglobals // a table
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // blank Braille pattern
		{Lo: 0xFFFC, Hi: 0xFFFC, Stride: 1}, // object replacement
	},
	R32: []unicode.Range32{
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // Egyptian hieroglyphs: full and half blank
		{Lo: 0x16FE4, Hi: 0x16FE4, Stride: 1}, // Khitan small script filler
		{Lo: 0x1D159, Hi: 0x1D159, Stride: 1}, // null notehead
	},
}

// IsVisible reports whether a reader sees a character as itself. False are controls, format, private and unassigned
// characters, spaces other than U+0020, variation selectors, fillers and blanks.
func IsVisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f
	}
	return unicode.IsGraphic(r) &&
		!unicode.In(r, unicode.Zs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, blank)
}

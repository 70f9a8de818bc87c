// Package lookalike tells which names look the same to people. It knows nothing of whose names they are.
package lookalike

import (
	"strings"
	"unicode"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// Keys returns two keys of a name. Names that have a key in common are equal or look alike: by UTS #39 as they are
// written, or in lower case. Empty keys are left out.
func Keys(name string) []string {
	plain := norm.NFKC.String(strings.Map(drawn, name))
	var keys []string
	for _, key := range []string{
		strings.ToLower(confusable.Skeleton(plain)), confusable.Skeleton(strings.ToLower(plain)),
	} {
		if key = strings.Map(drawn, key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// drawn drops characters that leave no mark, and white space.
func drawn(r rune) rune {
	switch {
	case unicode.IsSpace(r), !unicode.IsGraphic(r), r == '\u2800', r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0',
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return -1
	}
	return r
}

// Drawing returns a key that names share if a hurried reader may take one for the other: those that have a key of [Keys] in common, and
// names that differ in i, l and 1, in o and 0, or in vv and w. It is "" for a name that shows nothing. It is too coarse to refuse names.
func Drawing(name string) string {
	keys := Keys(strings.ToLower(name))
	if len(keys) == 0 {
		return ""
	}
	return drawings.Replace(keys[0])
}

var drawings = strings.NewReplacer("i", "l", "1", "l", "|", "l", "0", "o", "vv", "w") //nolint:gochecknoglobals // a table

// ReadAsASCII returns the ASCII text that a reader may take a text for, or "" if some letter looks like none. A letter with an accent looks
// like itself.
func ReadAsASCII(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKC.String(strings.Map(drawn, text)) {
		like := string(r)
		if r >= unicode.MaxASCII {
			like = confusable.GetReplacement(r)
		}
		if like == "" || strings.ContainsFunc(like, func(r rune) bool { return r > unicode.MaxASCII }) {
			return ""
		}
		b.WriteString(like)
	}
	return b.String()
}

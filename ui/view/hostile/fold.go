package hostile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// Limits say which values are cut, and how much of them is shown. The zero value cuts nothing.
type Limits struct {
	Lines, Runes         int // of a value that is shown whole, at most
	HeadLines, HeadRunes int
	TailLines, TailRunes int
	OpaqueRunes          int // of encoded data that is shown whole, at most
	OpaqueHead           int
	OpaqueTail           int
	Fields               int // of a document
	JSONLines            int // of a pretty-printed document

	Collapse bool // identical lines of long values are shown once, with their number

	Secrets *secretfield.Rules // values to hide; nil: none

	field int // the number of the value in its document
}

// Folded returns the limits of a page on which a reviewer decides: enough to judge a usual call, and at most a few screens.
func Folded() Limits {
	return Limits{
		Lines: 24, Runes: 2000, HeadLines: 14, HeadRunes: 1200, TailLines: 4, TailRunes: 300,
		OpaqueRunes: 160, OpaqueHead: 48, OpaqueTail: 24, Fields: 80, JSONLines: 400,
	}
}

// Brief returns the limits of a line in a list.
func Brief() Limits {
	return Limits{
		Lines: 1, Runes: 72, HeadLines: 1, HeadRunes: 56, TailRunes: 12,
		OpaqueRunes: 40, OpaqueHead: 24, OpaqueTail: 8,
	}
}

// Fold shows a value within limits.
func Fold(text string, l Limits) Value {
	head, tail, opaque := splitHeadTail(text, l)
	if head == len(text) && l.Collapse {
		return showLong(text, l.field)
	}
	if head == len(text) {
		return Value{Head: ShowValue(text)}
	}
	left := text[head:tail]
	sum := sha256.Sum256([]byte(text))
	v := Value{
		Head: Show(text[:head]),
		Cut: &Cut{
			Lines: strings.Count(left, "\n"), Runes: utf8.RuneCountInString(left),
			Bytes: len(text), SHA256: hex.EncodeToString(sum[:]), Opaque: opaque,
		},
		cut: findHidden(text, head, tail),
	}
	if tail < len(text) {
		v.Tail = Show(text[tail:])
	}
	return v
}

// findHidden counts the invisible characters of a part of a text.
func findHidden(text string, from, to int) Findings {
	var f Findings
	for i, r := range text[from:to] {
		switch {
		case isVisible(r), r == '\n', r == '\t', r == '\r':
		case isOrdinary(text, from+i, r):
			f.Quiet++
		default:
			f.Hidden++
		}
	}
	return f
}

// splitHeadTail returns the end of the head of a text and the begin of its tail.
func splitHeadTail(text string, l Limits) (head, tail int, opaque bool) {
	if l.OpaqueRunes > 0 && len(text) > l.OpaqueRunes && isOpaque(text) {
		return l.OpaqueHead, len(text) - l.OpaqueTail, true
	}
	if l.Runes == 0 || len(text) <= l.Runes && strings.Count(text, "\n") < l.Lines {
		return len(text), len(text), false
	}
	if utf8.RuneCountInString(text) <= l.Runes && strings.Count(text, "\n") < l.Lines {
		return len(text), len(text), false
	}
	head = findHeadEnd(text, l.HeadLines, l.HeadRunes)
	tail = findTailStart(text, head, l.TailLines, l.TailRunes)
	return moveOffJoiner(text, head), moveOffJoiner(text, tail), false
}

func findHeadEnd(text string, lines, runes int) int {
	for i, r := range text {
		if runes == 0 || lines == 0 {
			return i
		}
		runes--
		if r == '\n' {
			lines--
		}
	}
	return len(text)
}

func findTailStart(text string, head, lines, runes int) int {
	at := len(text)
	for at > head && runes > 0 {
		r, size := utf8.DecodeLastRuneInString(text[head:at])
		if r == '\n' {
			if lines--; lines <= 0 {
				break
			}
		}
		at -= size
		runes--
	}
	return at
}

// isOpaque reports whether a text is one long run of letters and digits, such as base64 or hexadecimal data, which people cannot read.
func isOpaque(text string) bool {
	body := text
	if strings.HasPrefix(body, "data:") {
		if comma := strings.IndexByte(body[:min(len(body), 120)], ','); comma > 0 {
			body = body[comma+1:]
		}
	}
	return hasEvenLines(body) && strings.ContainsAny(body, "0123456789") && !strings.ContainsFunc(body, isNotEncoded)
}

func isNotEncoded(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '\n':
		return false
	}
	return !strings.ContainsRune("+/-_=", r)
}

// hasEvenLines reports whether a text is one line, or wrapped by a program: all lines but the last have one length.
func hasEvenLines(text string) bool {
	const shortest = 40
	width := strings.IndexByte(text, '\n')
	if width < 0 {
		return true
	}
	for at := 0; ; {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			return width >= shortest && len(text)-at <= width
		}
		if end != width {
			return false
		}
		at += end + 1
	}
}

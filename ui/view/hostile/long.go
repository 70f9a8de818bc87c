package hostile

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	longLines   = 200    // a value with more lines is long
	longText    = 20_000 // bytes; so is a longer one
	leastRun    = 4      // identical lines in a row that are shown once
	maxOutliers = 20
	maxShape    = 200 // bytes
)

// Outlier is a line that differs in its shape from nearly all others of its value.
type Outlier struct {
	ID   string // of the place in the value
	Line int    // from 1
	Text Value
}

// stop is a place in a text where the scanner adds a piece, and goes on at another place.
type stop struct {
	at, next int
	piece    Piece
}

// showLong shows a whole text. Of byte-identical lines in a row it shows one and their number, and it finds the outliers. Values of a document
// have different numbers.
func showLong(text string, field int) Value {
	if strings.Count(text, "\n") < longLines && len(text) <= longText {
		return Value{Head: ShowValue(text)}
	}
	v := Value{Long: true}
	lines := strings.SplitAfter(text, "\n")
	odd := findOutliers(lines)
	v.MoreOutliers = max(0, len(odd)-maxOutliers)
	marked := map[int]string{}
	sum := sha256.Sum256([]byte(text))
	prefix := "line-" + hex.EncodeToString(sum[:4]) + "-" + strconv.Itoa(field) + "-"
	for _, i := range odd[:min(maxOutliers, len(odd))] {
		marked[i] = prefix + strconv.Itoa(i+1)
		v.Outliers = append(v.Outliers, Outlier{ID: marked[i], Line: i + 1, Text: Fold(strings.TrimSuffix(lines[i], "\n"), Brief())})
	}
	s := scanner{text: text}
	for i, at := 0, 0; i < len(lines); {
		if id, ok := marked[i]; ok {
			s.stops = append(s.stops, stop{at, at, Piece{Kind: Anchor, Text: id, Count: 1}})
		}
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		length := len(lines[i])
		switch {
		case lines[i] == "\n": // line breaks in a row have a count of their own
		case n >= leastRun:
			s.stops = append(s.stops, stop{at + length, at + n*length, Piece{Kind: Repeat, Count: n}})
			v.cut.add(findHidden(text, at+length, at+n*length))
		default:
			n = 1
		}
		i, at = i+n, at+n*length
	}
	v.Head = s.readAll()
	return v
}

// findOutliers returns the lines whose shape is rare where a few shapes make up nearly all lines, and the first of identical ones in a row.
func findOutliers(lines []string) []int {
	shapes, count := make([]string, len(lines)), map[string]int{}
	for i, line := range lines {
		shapes[i] = shapeOf(line)
		count[shapes[i]]++
	}
	common := min(50, max(10, len(lines)/50))
	var odd []int
	for i, shape := range shapes {
		if shape != "" && count[shape] < common {
			odd = append(odd, i)
		}
	}
	if len(odd) > len(lines)/10 {
		return nil
	}
	return slices.DeleteFunc(odd, func(i int) bool { return i > 0 && lines[i] == lines[i-1] })
}

// shapeOf returns a line with one sign for each run of digits, of ASCII letters, of other letters and of spaces.
func shapeOf(line string) string {
	var b strings.Builder
	last := rune(-1)
	for _, r := range strings.TrimSuffix(line, "\n") {
		switch {
		case '0' <= r && r <= '9':
			r = '0'
		case r < 0x80 && unicode.IsLetter(r):
			r = 'a'
		case unicode.IsLetter(r), unicode.IsMark(r):
			r = 'ä'
		}
		if r == last && (r == '0' || r == 'a' || r == 'ä' || r == ' ') {
			continue
		}
		if last = r; b.Len() >= maxShape {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// DiffOp is the fate of a line.
type DiffOp uint8

// The fates of lines.
const (
	Same DiffOp = iota
	Added
	Removed
	Gap // equal lines that are left out
)

// DiffLine is one line of a difference.
type DiffLine struct {
	Op      DiffOp
	Line    Line
	Skipped int // lines of the gap
}

// Diff is the difference between two documents, line by line, with some equal lines around each change.
type Diff struct {
	Lines   []DiffLine
	Added   int
	Removed int
	More    int  // lines that are left out
	Folded  bool // a line that differs is cut or left out

	Unwieldy bool // the documents have too many lines to compare: see [ErrUnwieldy]
}

// Equal reports whether the documents are equal but for white space between values.
func (d Diff) Equal() bool { return !d.Unwieldy && d.Added+d.Removed == 0 }

// contextLines is the number of equal lines around a change.
const contextLines = 3

// ReadDiff compares two pretty-printed documents. It compares uncut lines, and strings of several lines line by line. It returns an
// [ErrUnwieldy] for documents of very many lines, unless they are equal.
func ReadDiff(before, after []byte, l Limits) (Diff, error) {
	if bytes.Equal(before, after) && IsJSON(after) {
		return Diff{}, nil
	}
	old, err := readDiffLines(before, l)
	if err != nil {
		return Diff{Unwieldy: errors.Is(err, ErrUnwieldy)}, fmt.Errorf("read what was before: %w", err)
	}
	present, err := readDiffLines(after, l)
	if err != nil {
		return Diff{Unwieldy: errors.Is(err, ErrUnwieldy)}, fmt.Errorf("read what is now: %w", err)
	}
	return compareLines(old, present, l)
}

// ReadTextDiff compares two texts line by line.
func ReadTextDiff(before, after string, l Limits) (Diff, error) {
	if before == after {
		return Diff{}, nil
	}
	if strings.Count(before, "\n")+strings.Count(after, "\n") > maxCompared {
		return Diff{Unwieldy: true}, nil
	}
	return compareLines(splitLines(before, l), splitLines(after, l), l)
}

// splitLines returns the lines of a text. The empty text has none.
func splitLines(text string, l Limits) []Line {
	var lines []Line
	for line := range strings.Lines(text) {
		shown := line
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			shown = whole
		}
		lines = append(lines, Line{Value: new(Fold(shown, l)), whole: line})
	}
	return lines
}

func compareLines(old, present []Line, l Limits) (Diff, error) {
	from, to := joinLines(old), joinLines(present)
	unified, err := udiff.ToUnifiedDiff("", "", from, udiff.Lines(from, to), contextLines)
	if err != nil {
		return Diff{}, fmt.Errorf("compare documents: %w", err)
	}
	d := differ{old: old, present: present, limit: l.JSONLines}
	for _, hunk := range unified.Hunks {
		d.addHunk(hunk)
	}
	if d.diff.Equal() {
		return Diff{}, nil
	}
	d.addGap(len(old) - d.at)
	return d.diff, nil
}

// maxCompared limits the lines of documents to compare: agents choose the number of lines, and every view of a call compares them.
const maxCompared = 20_000

func readDiffLines(document []byte, l Limits) ([]Line, error) {
	l.JSONLines = 0
	r := newPrettyReader(document, l)
	r.split, r.most = true, maxCompared
	err := r.readValue(0, nil)
	return r.pretty.Lines, err
}

// joinLines returns a text with one line for each line of a document.
func joinLines(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strconv.Itoa(l.Depth))
		b.WriteString(strconv.Quote(l.whole + l.Open + l.Close))
		b.WriteByte('\n')
	}
	return b.String()
}

// differ merges the lines of two documents into one list.
type differ struct {
	old, present []Line
	at, now      int // the next line of each
	limit        int
	diff         Diff
}

func (d *differ) addHunk(h *udiff.Hunk) {
	skipped := h.FromLine - 1 - d.at
	if len(d.old) == 0 {
		skipped = 0
	}
	d.addGap(skipped)
	d.now += skipped
	for _, line := range h.Lines {
		switch line.Kind {
		case udiff.Delete:
			d.diff.Removed++
			d.addLine(DiffLine{Op: Removed, Line: d.old[d.at]})
			d.at++
		case udiff.Insert:
			d.diff.Added++
			d.addLine(DiffLine{Op: Added, Line: d.present[d.now]})
			d.now++
		case udiff.Equal:
			d.addLine(DiffLine{Op: Same, Line: d.present[d.now]})
			d.at++
			d.now++
		}
	}
}

func (d *differ) addGap(n int) {
	if n > 0 {
		d.addLine(DiffLine{Op: Gap, Skipped: n})
		d.at += n
	}
}

func (d *differ) addLine(l DiffLine) {
	if d.limit > 0 && len(d.diff.Lines) >= d.limit {
		d.diff.More++
		d.diff.Folded = d.diff.Folded || l.Op == Added || l.Op == Removed
		return
	}
	if l.Op == Added || l.Op == Removed {
		for _, v := range []*Value{l.Line.Name, l.Line.Value} {
			d.diff.Folded = d.diff.Folded || v != nil && v.Cut != nil
		}
	}
	d.diff.Lines = append(d.diff.Lines, l)
}

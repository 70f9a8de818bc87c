package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// DiffOp says what became of a line.
type DiffOp uint8

// The ways of a line from before to after.
const (
	Same DiffOp = iota
	Added
	Removed
	Gap // lines that are the same, left out
)

// DiffLine is one line of a difference.
type DiffLine struct {
	Op      DiffOp
	Line    Line
	Skipped int // lines that a gap stands for
}

// Diff is what differs between two documents, line by line, with some of what is the same around it.
type Diff struct {
	Lines   []DiffLine
	Added   int
	Removed int
	More    int  // lines of the difference that are left out
	Folded  bool // something that differs is not shown whole

	Unwieldy bool // the documents have too many lines to be compared: see [ErrUnwieldy]
}

// Equal reports whether nothing differs, but for white space between values.
func (d Diff) Equal() bool { return !d.Unwieldy && d.Added+d.Removed == 0 }

// around is how many lines that are the same stand around one that differs.
const around = 3

// ReadDiff compares two documents as they are pretty-printed. Lines are compared whole, whatever
// the limits leave out of what is shown; a string of several lines is compared line by line. Documents of very many
// lines are [ErrUnwieldy], as the difference then says, unless they are the same.
func ReadDiff(before, after []byte, l Limits) (Diff, error) {
	if bytes.Equal(before, after) && IsJSON(after) {
		return Diff{}, nil
	}
	old, err := diffable(before, l)
	if err != nil {
		return Diff{Unwieldy: errors.Is(err, ErrUnwieldy)}, fmt.Errorf("read what was before: %w", err)
	}
	present, err := diffable(after, l)
	if err != nil {
		return Diff{Unwieldy: errors.Is(err, ErrUnwieldy)}, fmt.Errorf("read what is now: %w", err)
	}
	from, to := joined(old), joined(present)
	unified, err := udiff.ToUnifiedDiff("", "", from, udiff.Lines(from, to), around)
	if err != nil {
		return Diff{}, fmt.Errorf("compare documents: %w", err)
	}
	d := differ{old: old, present: present, limit: l.JSONLines}
	for _, hunk := range unified.Hunks {
		d.hunk(hunk)
	}
	if d.diff.Equal() {
		return Diff{}, nil
	}
	d.gap(len(old) - d.at)
	return d.diff, nil
}

// maxCompared is how many lines of a document are compared: an agent chooses how many there are, and everybody who
// looks at its call compares them.
const maxCompared = 20_000

func diffable(document []byte, l Limits) ([]Line, error) {
	l.JSONLines = 0
	r := newPrettyReader(document, l)
	r.split, r.most = true, maxCompared
	err := r.value(0, nil)
	return r.pretty.Lines, err
}

// joined is a text with one line for each line of a document.
func joined(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strconv.Itoa(l.Depth))
		b.WriteString(strconv.Quote(l.whole + l.Open + l.Close))
		b.WriteByte('\n')
	}
	return b.String()
}

// differ puts the lines of two documents into one list.
type differ struct {
	old, present []Line
	at, now      int // the next line of each
	limit        int
	diff         Diff
}

func (d *differ) hunk(h *udiff.Hunk) {
	skipped := h.FromLine - 1 - d.at
	if len(d.old) == 0 {
		skipped = 0
	}
	d.gap(skipped)
	d.now += skipped
	for _, line := range h.Lines {
		switch line.Kind {
		case udiff.Delete:
			d.diff.Removed++
			d.add(DiffLine{Op: Removed, Line: d.old[d.at]})
			d.at++
		case udiff.Insert:
			d.diff.Added++
			d.add(DiffLine{Op: Added, Line: d.present[d.now]})
			d.now++
		case udiff.Equal:
			d.add(DiffLine{Op: Same, Line: d.present[d.now]})
			d.at++
			d.now++
		}
	}
}

func (d *differ) gap(n int) {
	if n > 0 {
		d.add(DiffLine{Op: Gap, Skipped: n})
		d.at += n
	}
}

func (d *differ) add(l DiffLine) {
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

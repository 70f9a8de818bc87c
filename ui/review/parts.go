package review

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// CardPart is an argument, or an object or a list with all its values.
type CardPart struct {
	Row   *CardRow   // of a value
	Name  string     // of an object or a list; from outside
	Parts []CardPart // the members of an object
	Table *CardTable // the elements of a list
}

// CardTable has one line for each element of a list, and one column for each member.
type CardTable struct {
	Columns []string // from outside; the empty name is the element itself
	Items   []CardItem
	Cut     bool // more elements are left out
	Width   int  // of the columns side by side, in characters
}

// chooseClass returns the style of the table: whether each line is one on a wide screen, on a phone, or everywhere.
func (t CardTable) chooseClass() string {
	switch {
	case t.Width > maxWidth:
		return "stacked"
	case t.Width > maxPhoneWidth:
		return "broad"
	}
	return ""
}

// CardItem is an element of a list.
type CardItem struct {
	ID     string
	Index  int
	Cells  [][]CardRow // the values of each column
	Hidden bool        // one of them is a secret
}

// rankItem orders items: red warnings first, then unusual values.
func (i CardItem) rankItem() int {
	first := rankUsual
	for _, rows := range i.Cells {
		for _, r := range rows {
			first = min(first, rankRow(r))
		}
	}
	return first
}

// rankPart orders parts as [CardItem.rankItem] does. Values come before objects and lists.
func (p CardPart) rankPart() int {
	if p.Row != nil {
		return 2 * rankRow(*p.Row)
	}
	first := rankUsual
	if p.Table != nil {
		for _, item := range p.Table.Items {
			first = min(first, item.rankItem())
		}
	}
	for _, member := range p.Parts {
		first = min(first, member.rankPart()/2)
	}
	if first == rankUsual {
		return 2 * first // in the order of the call
	}
	return 2*first + 1
}

// maxNested is the number of objects within one another that are drawn as such. Values that are deeper have their path instead.
const maxNested = 3

// placedRow is a row with the way to its place.
type placedRow struct {
	CardRow
	steps []*hostile.Place
}

// grouper groups rows.
type grouper struct {
	next *hostile.Place // of the first value that was left out
}

// dropPartial removes the values of a list's element that was cut, unless it is the only one that is shown.
func dropPartial(fields *hostile.Fields) {
	var partial *hostile.Place // in the outermost list, because inner ones have no table
	for p := fields.Next; p != nil; p = p.In {
		if p.Index >= 0 {
			partial = p
		}
	}
	from := len(fields.List)
	for partial != nil && from > 0 && fields.List[from-1].Place.IsWithin(partial) {
		from--
	}
	if from > 0 && partial != nil && fields.List[from-1].Place.IsWithin(partial.In) {
		fields.List, fields.More = fields.List[:from], fields.More+len(fields.List)-from
	}
}

// groupRows makes parts of the rows of a document, which are in its order.
func (g grouper) groupRows(rows []CardRow) []CardPart {
	placed := make([]placedRow, len(rows))
	for i, r := range rows {
		placed[i].CardRow = r
		for p := r.Place; p != nil; p = p.In {
			placed[i].steps = append(placed[i].steps, p)
		}
		slices.Reverse(placed[i].steps)
	}
	return g.groupWithin(placed, 0, 0)
}

// groupWithin makes parts of rows that have the first steps in common.
func (g grouper) groupWithin(rows []placedRow, steps, nested int) []CardPart {
	var parts []CardPart
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && len(rows[from].steps) > steps && len(rows[to].steps) > steps && rows[to].steps[steps] == rows[from].steps[steps] {
			to++
		}
		group := rows[from:to]
		from = to
		if len(group) == 1 || nested == maxNested || slices.ContainsFunc(group, func(r placedRow) bool { return r.Path.Cut != nil }) {
			for _, r := range group {
				parts = append(parts, CardPart{Row: r.nameRow(steps)})
			}
			continue
		}
		parts = append(parts, g.makeGroup(group, steps, nested))
	}
	slices.SortStableFunc(parts, func(a, b CardPart) int { return cmp.Compare(a.rankPart(), b.rankPart()) })
	return parts
}

// makeGroup makes the part of an object or a list with several values.
func (g grouper) makeGroup(rows []placedRow, steps, nested int) CardPart {
	end := steps + 1
	for end < len(rows[0].steps) && rows[0].steps[end] == rows[len(rows)-1].steps[end] { // a single element or member
		end++
	}
	name := hostile.JoinPlaces(rows[0].steps[steps:end])
	if rows[0].steps[end].Index >= 0 {
		return CardPart{Name: name, Table: g.makeTable(rows, end)}
	}
	return CardPart{Name: name, Parts: g.groupWithin(rows, end, nested+1)}
}

// nameRow returns the row with the end of its path as its name.
func (r placedRow) nameRow(steps int) *CardRow {
	row := r.CardRow
	if steps > 0 && row.Path.Cut == nil {
		row.Path = hostile.Fold(hostile.JoinPlaces(r.steps[steps:]), hostile.Limits{})
	}
	return &row
}

// The bounds on columns side by side, in characters.
const (
	maxWidth      = 52
	maxPhoneWidth = 26
	columnGap     = 2
	chipFrame     = 3 // around a chip, with its count
)

// makeTable makes a table of a list. The rows have the first steps in common, and the next one is the element.
func (g grouper) makeTable(rows []placedRow, steps int) *CardTable {
	t := &CardTable{Cut: g.next != nil && g.next.IsWithin(rows[0].steps[steps].In)}
	columns := map[string]int{}
	var widths []int
	var element *hostile.Place
	for _, r := range rows {
		if r.steps[steps] != element {
			element = r.steps[steps]
			t.Items = append(t.Items, CardItem{ID: r.ID, Index: element.Index})
		}
		item, rest := &t.Items[len(t.Items)-1], r.steps[steps+1:]
		name := ""
		if len(rest) > 0 {
			name = hostile.JoinPlaces(rest[:1])
		}
		at, known := columns[name]
		if !known {
			at = len(t.Columns)
			columns[name], t.Columns = at, append(t.Columns, name)
			widths = append(widths, min(utf8.RuneCountInString(name), maxWidth))
		}
		for len(item.Cells) <= at {
			item.Cells = append(item.Cells, nil)
		}
		row := r.CardRow
		if row.Path = (hostile.Value{}); len(rest) > 1 { // the column has the first name
			row = *r.nameRow(steps + 2)
		}
		if row.Notes = row.cellNotes(); !row.isOdd() {
			row.Usual = nil
		}
		item.Cells[at] = append(item.Cells[at], row)
		item.Hidden = item.Hidden || row.Secret
		widths[at] = max(widths[at], measureWidth(row.Value), measureWidth(row.Path))
	}
	for _, w := range widths {
		t.Width += w + columnGap
	}
	for i := range t.Items {
		for len(t.Items[i].Cells) < len(t.Columns) {
			t.Items[i].Cells = append(t.Items[i].Cells, nil)
		}
	}
	slices.SortStableFunc(t.Items, func(a, b CardItem) int { return cmp.Compare(a.rankItem(), b.rankItem()) })
	return t
}

// measureWidth returns the characters of the longest run of a value that cannot wrap. Chips are a part of it.
func measureWidth(v hostile.Value) int {
	widest := 0
	for _, pieces := range [][]hostile.Piece{v.Head, v.Tail} {
		run := 0
		for _, p := range pieces {
			switch p.Kind {
			case hostile.Break, hostile.Repeat:
				run = 0
			case hostile.Chip:
				run += utf8.RuneCountInString(p.Text) + chipFrame
			case hostile.Plain, hostile.Suspect, hostile.Secret, hostile.Anchor:
				for _, r := range p.Text {
					if run++; unicode.IsSpace(r) {
						run = 0
					}
					widest = max(widest, run)
				}
			}
			widest = max(widest, run)
		}
	}
	return widest
}

// cellNotes returns the notes that a table has room for: all of them about an unusual value, otherwise those that say more than the value.
func (r CardRow) cellNotes() []templ.Component {
	if r.isOdd() || r.Typed == nil || len(r.Notes) == 0 {
		return r.Notes
	}
	v := r.Typed
	switch v.Kind {
	case typed.Email, typed.IBAN:
		return r.Notes[1:]
	case typed.Money:
		if !v.Money.Minor {
			return r.Notes[1:]
		}
	case typed.Date:
		if v.IsString {
			return r.Notes[1:]
		}
	case typed.URL:
		if v.Link.Resolved == "" {
			return r.Notes[1:]
		}
	case typed.Text, typed.Number, typed.Boolean, typed.Null, typed.Nested, typed.Recipients, typed.Path, typed.Base64, typed.JSON, typed.SQL, typed.Shell, typed.Diff, typed.HTML:
	}
	return r.Notes
}

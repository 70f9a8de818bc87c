package review

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Card compares each argument of a call with approved calls. Unusual arguments come first.
type Card struct {
	Rows    []CardRow
	Parts   []CardPart // the same rows, by objects and lists
	More    int        // arguments that are not listed
	Unusual int
	Calls   int  // approved calls that were compared
	None    bool // there are too few of them

	Notes  []CardNote
	Alarms []templ.Component // red warnings about objects and lists
}

// CardNote is about an object or a list, such as the domains of its recipients.
type CardNote struct {
	Path string
	Text templ.Component
}

// CardRow is one argument.
type CardRow struct {
	hostile.Field
	ID      string // of its element
	Unusual bool
	Named   bool // the agent gave it the name of a secret
	Badge   view.Badge
	Reasons []text.Message
	Usual   templ.Component // the usual values; nil: none are known
	Last    templ.Component // the value in the last call to the same target; nil: none

	Typed  *typed.Value // nil: a secret, or not recognized
	Notes  []templ.Component
	Alarms []templ.Component // red warnings about the value
}

// isAlarming reports whether a reviewer has to take the second step for this argument.
func (r CardRow) isAlarming() bool { return len(r.Alarms) > 0 }

// isOdd reports whether the argument needs a second look.
func (r CardRow) isOdd() bool { return r.Unusual || r.isAlarming() }

// makeCard joins the arguments with the evidence about them. place begins the ids of the rows; hidden are the secrets of the whole document, and named has the pointers of
// arguments that the agent gave the name of a secret.
func makeCard(place string, fields *hostile.Fields, entries []evidence.Entry, values map[string]typed.Value, hidden []secretfield.Field, named []string) *Card {
	byPointer := make(map[string]*evidence.Entry, len(entries))
	for i := range entries {
		byPointer[entries[i].Path] = &entries[i]
	}
	card := &Card{Rows: make([]CardRow, len(fields.List)), More: fields.More}
	for i, f := range fields.List {
		card.Rows[i].Field, card.Rows[i].ID = f, place+"arg-"+strconv.Itoa(i)
		card.Rows[i].Named, card.Rows[i].Badge = slices.Contains(named, f.Pointer), present.NamedBadge()
		if v, ok := values[f.Pointer]; ok && !f.Secret {
			card.Rows[i].Typed = &v
			card.Rows[i].Notes, card.Rows[i].Alarms = describeTyped(&v)
		}
		e := byPointer[f.Pointer]
		if e == nil {
			continue
		}
		card.Calls, card.None = e.Calls, e.Calls < evidence.Enough
		card.Rows[i].Unusual = e.Verdict == evidence.Unusual
		for _, r := range e.Reasons {
			if r == evidence.LooksLike {
				card.Rows[i].Alarms = append(card.Rows[i].Alarms, describeReason(r))
				continue
			}
			card.Rows[i].Reasons = append(card.Rows[i].Reasons, describeReason(r))
		}
		if e.Verdict == evidence.Unusual || e.Verdict == evidence.Usual {
			card.Rows[i].Usual = describeUsual(e)
		}
		if e.Last != nil {
			card.Rows[i].Last = describeLast(e.Last, values[f.Pointer].Text)
		}
	}
	card.Unusual = evidence.CountUnusual(entries)
	card.addNested(values, hidden)
	card.Parts = grouper{fields.Next}.groupRows(card.Rows)
	slices.SortStableFunc(card.Rows, func(a, b CardRow) int { return rankRow(a) - rankRow(b) })
	return card
}

// The ranks of arguments, in their order.
const (
	rankAlarming = iota
	rankUnusual
	rankUsual
)

func rankRow(r CardRow) int {
	switch {
	case r.isAlarming():
		return rankAlarming
	case r.Unusual:
		return rankUnusual
	}
	return rankUsual
}

// addNested adds the notes about objects and lists without hidden values, which the notes would show.
func (c *Card) addNested(values map[string]typed.Value, hidden []secretfield.Field) {
	for _, pointer := range slices.Sorted(maps.Keys(values)) {
		v := values[pointer]
		if v.Kind != typed.Nested && v.Kind != typed.Recipients || hidesWithin(hidden, pointer) {
			continue
		}
		notes, alarms := describeTyped(&v)
		for _, n := range notes {
			c.Notes = append(c.Notes, CardNote{strings.TrimPrefix(pointer, "/"), n})
		}
		c.Alarms = append(c.Alarms, alarms...)
	}
}

// hidesWithin reports whether a value is hidden, or one within it.
func hidesWithin(hidden []secretfield.Field, pointer string) bool {
	return slices.ContainsFunc(hidden, func(f secretfield.Field) bool { return strings.HasPrefix(f.Pointer+"/", pointer+"/") })
}

func describeReason(r evidence.Reason) text.Message {
	switch r {
	case evidence.NewArgument:
		return text.EvidenceNewArgument()
	case evidence.NewValue:
		return text.EvidenceNewValue()
	case evidence.OtherType:
		return text.EvidenceOtherType()
	case evidence.AboveRange:
		return text.EvidenceAboveRange()
	case evidence.BelowRange:
		return text.EvidenceBelowRange()
	case evidence.NewCurrency:
		return text.EvidenceNewCurrency()
	case evidence.NewDomain:
		return text.EvidenceNewDomain()
	case evidence.NewPlace:
		return text.EvidenceNewPlace()
	case evidence.Longer:
		return text.EvidenceLonger()
	case evidence.LooksLike:
		return text.EvidenceLooksLike()
	}
	return text.Literal(string(r))
}

// describeUsual returns the values that approved calls had in place of an argument, or nil.
func describeUsual(e *evidence.Entry) templ.Component {
	switch {
	case e.Having == 0:
		return nil
	case e.Nearest != "":
		return text.EvidenceValues(view.Differing(e.Nearest, e.Against))
	case e.Same > 0:
		return text.EvidenceSame(e.Same, e.Having)
	case e.Range != nil && e.Range.Times > 1:
		return text.EvidenceRangeTimes(describeSpan(e.Range), formatFloat(e.Range.Times))
	case e.Range != nil:
		return text.EvidenceRange(describeSpan(e.Range))
	case len(e.Domains) > 0:
		return text.EvidenceValues(view.TextList(e.Domains))
	case len(e.Common) > 0:
		return text.EvidenceValues(view.TextList(e.Common))
	}
	return text.EvidenceVaries()
}

// describeSpan returns the least and the greatest usual number, or the only one.
func describeSpan(r *evidence.Range) text.Message {
	if r.Min == r.Max {
		return formatAmount(r, r.Min)
	}
	return text.EvidenceSpan(formatAmount(r, r.Min), formatAmount(r, r.Max))
}

// describeLast says which value the last call to the same target had, and marks how the value differs now.
func describeLast(l *evidence.Last, now string) templ.Component {
	return text.EvidenceLast(view.Differing(l.Value, now), view.Text(l.Target), view.Clock(l.At))
}

func formatAmount(r *evidence.Range, v float64) text.Message {
	if r.Currency == "" {
		return formatFloat(v)
	}
	return text.TypedMoney(r.Currency, formatFloat(v))
}

func formatFloat(v float64) text.Message { return text.Decimal(v, -1) }

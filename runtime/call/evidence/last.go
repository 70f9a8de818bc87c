package evidence

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/typed"
)

// Last is the value that the last approved call to the same target had.
type Last struct {
	Value      string
	Target     string // as the call writes it
	TargetPath string // JSON Pointer of the target
	At         time.Time
}

// target is a value of a call that says what the call acts on.
type target struct {
	leaf
	kind      typed.Kind
	canonical string
}

// maxTargets is the number of targets of a call that are looked up.
const maxTargets = 8

// findLast returns the newest approved call to the same target, or nil. The targets of the call are tried in a fixed order: IBANs, e-mail
// addresses, URLs (host and path), paths of files, values with the name of an id; those of one kind in the order of the call.
func (h *History) findLast(leaves []leaf, hidden func(pointer string) bool) (*Call, target) {
	for _, t := range listTargets(leaves, hidden) {
		for i := range h.calls {
			c := &h.calls[i]
			at, ok := c.Facts.only(t.Path)
			if ok && (at.historyKey() == t.historyKey() || t.isIn(at)) {
				return c, t
			}
		}
	}
	return nil, target{}
}

func listTargets(leaves []leaf, hidden func(pointer string) bool) []target {
	count := map[string]int{}
	for _, l := range leaves {
		count[l.Path]++
	}
	var list []target
	for _, l := range leaves {
		if count[l.Path] > 1 || l.Long > 0 || l.Value == "" || hidden(l.pointer) || typed.NamesSource(l.name()) {
			continue
		}
		t := target{leaf: l}
		if t.kind, t.canonical = l.target(); t.canonical == "" && (l.Kind == other || !typed.NamesID(l.name())) {
			continue
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b target) int { return cmp.Compare(rankTarget(a.kind), rankTarget(b.kind)) })
	return list[:min(maxTargets, len(list))]
}

func rankTarget(k typed.Kind) int {
	return slices.Index([]typed.Kind{typed.IBAN, typed.Email, typed.URL, typed.Path, typed.Text}, k)
}

// isIn reports whether a value of an approved call, written in another way, is the target.
func (t target) isIn(f Fact) bool {
	if t.canonical == "" || f.Long > 0 {
		return false
	}
	kind, canonical := f.target()
	return kind == t.kind && canonical == t.canonical
}

// name returns the last name in the path.
func (f Fact) name() string {
	p := jsontext.Pointer(f.Path)
	for p.LastToken() == "*" {
		p = p.Parent()
	}
	return p.LastToken()
}

func (f Fact) target() (typed.Kind, string) {
	if f.Kind != text {
		return typed.Text, ""
	}
	quoted, err := jsontext.AppendQuote(nil, f.Value)
	if err != nil {
		return typed.Text, ""
	}
	v := typed.Recognize(f.name(), quoted, nil)
	return v.Target()
}

// only returns the value at a path, if there is exactly one.
func (facts Facts) only(path string) (found Fact, ok bool) {
	for _, f := range facts {
		if f.Path == path {
			if ok {
				return Fact{}, false
			}
			found, ok = f, true
		}
	}
	return found, ok
}

// addLast adds the value of the last call to the same target to an entry that is not usual and differs.
func (e *Entry) addLast(l leaf, last *Call, t target) {
	if last == nil || l.pointer == t.pointer || e.Verdict != Unusual && e.Verdict != NoHistory {
		return
	}
	if was, ok := last.Facts.only(l.Path); ok && was.Long == 0 && was.historyKey() != l.historyKey() {
		e.Last = &Last{Value: was.Value, Target: t.Value, TargetPath: t.pointer, At: last.At}
	}
}

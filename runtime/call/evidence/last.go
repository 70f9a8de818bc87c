package evidence

import (
	"cmp"
	"fmt"
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
		index, newest := h.indexTargets(t.Path), len(h.calls)
		for _, key := range t.listKeys() {
			if at, ok := index[key]; ok {
				newest = min(newest, at)
			}
		}
		if newest < len(h.calls) {
			return &h.calls[newest], t
		}
	}
	return nil, target{}
}

// indexTargets returns the place of the newest call with each value at a path, by the keys of the value. To recognize values takes
// long, so it is done once for each path that a call has a target at.
func (h *History) indexTargets(path string) map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index, ok := h.targets[path]; ok {
		return index
	}
	index := map[string]int{}
	for i, c := range h.calls {
		fact, ok := c.Facts.findOnly(path)
		if !ok {
			continue
		}
		t := target{leaf: leaf{Fact: fact}}
		if fact.Long == 0 {
			t.kind, t.canonical = fact.findTarget()
		}
		for _, key := range t.listKeys() {
			if _, ok := index[key]; !ok {
				index[key] = i
			}
		}
	}
	if h.targets == nil {
		h.targets = map[string]map[string]int{}
	}
	h.targets[path] = index
	return index
}

// listKeys returns the keys of a target: its value as it is written and, if it is recognized, its canonical form.
func (t target) listKeys() []string {
	keys := []string{fmt.Sprintf("%d=%s", t.Kind, t.Value)}
	if t.canonical != "" {
		keys = append(keys, fmt.Sprintf("%d:%s", t.kind, t.canonical))
	}
	return keys
}

func listTargets(leaves []leaf, hidden func(pointer string) bool) []target {
	count := map[string]int{}
	for _, l := range leaves {
		count[l.Path]++
	}
	var list []target
	for _, l := range leaves {
		if count[l.Path] > 1 || l.Long > 0 || l.Value == "" || hidden(l.pointer) || typed.NamesSource(l.lastName()) {
			continue
		}
		t := target{leaf: l}
		if t.kind, t.canonical = l.findTarget(); t.canonical == "" && (l.Kind == other || !typed.NamesID(l.lastName())) {
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

// lastName returns the last name in the path.
func (f Fact) lastName() string {
	p := jsontext.Pointer(f.Path)
	for p.LastToken() == "*" {
		p = p.Parent()
	}
	return p.LastToken()
}

func (f Fact) findTarget() (typed.Kind, string) {
	if f.Kind != text {
		return typed.Text, ""
	}
	quoted, err := jsontext.AppendQuote(nil, f.Value)
	if err != nil {
		return typed.Text, ""
	}
	v := typed.Recognize(f.lastName(), quoted, nil)
	return v.Target()
}

// findOnly returns the value at a path, if there is exactly one.
func (facts Facts) findOnly(path string) (found Fact, ok bool) {
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
	if l.pointer == t.pointer || e.Verdict != Unusual && e.Verdict != NoHistory {
		return
	}
	if was, ok := last.Facts.findOnly(l.Path); ok && was.Long == 0 && (was.Kind != l.Kind || was.Value != l.Value) {
		e.Last = &Last{Value: was.Value, Target: t.Value, TargetPath: t.pointer, At: last.At}
	}
}

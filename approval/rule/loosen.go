package rule

import (
	"reflect"
	"slices"
)

// Loosens reports whether a change of a rule may let a call pass, or pass with less, that had to be approved or was denied before. nil: there
// is no rule. A scope or a condition that differs counts, since it is not known which calls it is about.
func Loosens(before, after *Spec) bool {
	before, after = inForce(before), inForce(after)
	switch {
	case before == nil:
		return after != nil && after.Effect == Allow
	case after == nil:
		return before.Effect != Allow
	case before.Effect == Allow && after.Effect != Allow:
		return false
	case slices.Index(Effects(), after.Effect) < slices.Index(Effects(), before.Effect):
		return true
	case after.HighRisk && !before.HighRisk:
		return true
	}
	was, now := before.reach(), after.reach()
	if was.Policy == "" { // any policy asks more
		now.Policy = ""
	}
	return !reflect.DeepEqual(was, now)
}

// inForce returns a rule that counts, or nil.
func inForce(s *Spec) *Spec {
	if s == nil {
		return nil
	}
	normal := s.Normalize()
	if normal.Mode != Enforce {
		return nil
	}
	return &normal
}

// reach returns the spec without the fields whose changes do not loosen, or are compared one by one.
func (s Spec) reach() Spec {
	reach := s
	reach.Name, reach.Message, reach.Effect, reach.Mode, reach.HighRisk = "", "", "", "", false
	return reach
}

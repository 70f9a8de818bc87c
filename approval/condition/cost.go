package condition

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
)

// Sizes for the estimate of a condition's cost. A call's arguments have at most 1 MiB, but if each list without a bound were assumed to fill
// them, no condition could look through one. So lists and texts without a bound are assumed to have an ordinary size. The limit at
// run time holds for all.
const (
	largestText = 1 << 20 // characters of the arguments
	largestList = 1 << 19 // elements within them
	usualText   = 10_000
	usualList   = 1000
	usualItem   = 100 // characters of a text in a list
	longestName = 300
)

// checkCost refuses a condition that may cost more than MaxCost.
func (s *Schema) checkCost(checked *cel.Ast) error {
	estimate, err := s.env.EstimateCost(checked, estimator{s.root})
	if err != nil {
		return fmt.Errorf("estimate the cost of a condition: %w", err)
	}
	if estimate.Max > MaxCost {
		return &Error{[]Problem{{1, 1, fmt.Sprintf("the condition may cost %s, more than the limit of %d: use fewer loops within loops", describeCost(estimate.Max), MaxCost)}}}
	}
	return nil
}

func describeCost(c uint64) string {
	if c > 1e15 {
		return "any amount"
	}
	return fmt.Sprint(c)
}

// estimator tells how large the values of a call may be.
type estimator struct{ root *shape }

// EstimateCallCost implements [cost.Estimator].
func (estimator) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize implements [cost.Estimator].
func (e estimator) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	size := cost.RangedSizeEstimate(0, longestName)
	if path[0] != "args" {
		return &size
	}
	at, usual := e.root, uint64(usualText)
	for _, name := range path[1:] {
		switch {
		case name == "@keys":
			size = cost.RangedSizeEstimate(0, longestName)
			return &size
		case name == "@items" || name == "@values" || at.kind == mapKind:
			at, usual = at.elem, usualItem
		case at.kind == objectKind:
			at = at.fields[name]
		}
		if at == nil {
			at = newUntyped("")
		}
	}
	switch {
	case at.kind == stringKind:
		size.Max = boundSize(at.maxSize, usual, largestText)
	case at.kind == listKind:
		size.Max = boundSize(at.maxSize, usualList, largestList)
	default:
		size.Max = usualList
	}
	return &size
}

// boundSize returns the largest size of a value by its schema, or the usual size if the schema has no bound.
func boundSize(bySchema, usual, largest uint64) uint64 {
	if bySchema == 0 {
		return usual
	}
	return min(bySchema, largest)
}

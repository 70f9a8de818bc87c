package condition

import (
	"fmt"
	"strconv"

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
	usualItem   = 100 // of a text or a list in a list
	usualFiles  = 20  // of a command
	longestName = 300
)

// checkCost refuses a condition that may cost more than MaxCost. It reports whether the cost of one without loops has to be
// counted at run time, because texts may be larger than usual; counting takes as long as evaluating.
func (s *Schema) checkCost(checked *cel.Ast) (count bool, err error) {
	usual, err := s.env.EstimateCost(checked, estimator{s.root, false})
	if err != nil {
		return false, fmt.Errorf("estimate the cost of a condition: %w", err)
	}
	if usual.Max > MaxCost && s.root.kind != untyped { // without a schema nothing is known about sizes
		return false, &Error{[]Problem{{1, 1, fmt.Sprintf("the condition may cost %s, more than the limit of %d: use fewer loops within loops", describeCost(usual.Max), MaxCost)}}}
	}
	largest, err := s.env.EstimateCost(checked, estimator{s.root, true})
	if err != nil {
		return false, fmt.Errorf("estimate the cost of a condition: %w", err)
	}
	return largest.Max > MaxCost, nil
}

func describeCost(c uint64) string {
	if c > 1e15 {
		return "any amount"
	}
	return strconv.FormatUint(c, 10)
}

// estimator tells how large the values of a call may be.
type estimator struct {
	root    *shape
	largest bool // assume that values have the largest size, not the usual one
}

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
	root := map[string]*shape{"args": e.root, "context": contextShape}[path[0]]
	if root == nil {
		return &size
	}
	at, text, list, item := root, uint64(usualText), uint64(usualList), uint64(usualItem)
	if e.largest {
		text, list, item = largestText, largestList, largestText
	}
	for _, name := range path[1:] {
		switch {
		case name == "@keys":
			size = cost.RangedSizeEstimate(0, longestName)
			return &size
		case name == "@items" || name == "@values" || at.kind == mapKind:
			at, text, list = at.elem, item, item
		case at.kind == objectKind:
			at = at.fields[name]
		}
		if at == nil {
			at = newUntyped("")
		}
	}
	switch at.kind {
	case stringKind:
		size.Max = boundSize(at.maxSize, text, largestText)
	case listKind:
		size.Max = boundSize(at.maxSize, list, largestList)
	default:
		size.Max = list
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

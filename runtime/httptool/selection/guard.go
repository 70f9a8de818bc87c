package selection

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/itchyny/gojq"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Some operations of jq take, in a single step, time or memory that grows faster than their operands. A guard before each of them fails
// if an operand is too large. So no answer of a server makes an operator's program take more than these limits.
const (
	maxCompared = 4000     // values on each side of an operation that compares each with each
	maxSought   = 100      // elements or bytes of an operand that is searched for at each position
	maxMatched  = 16 << 10 // bytes of a text in which a regular expression finds all matches
	maxFactor   = 1 << 16  // bits of a factor
	maxIndexed  = 1 << 20  // elements of a list or a table that one step makes

	// maxHandled bounds the bytes that all steps of a run together join, collect, compare, sort and write. A value counts
	// valueSize and a text its length. A value that is walked in several places counts in each.
	maxHandled   = 512 << 20
	valueSize    = 32
	maxSeparator = valueSize // bytes of the separator of join
)

// budget is the number of bytes that a run may still handle.
type budget struct {
	limit int64 // at the beginning of a run
	left  atomic.Int64
}

// spendSize subtracts the size of v.
func (b *budget) spendSize(v any) error {
	left := b.left.Load()
	enough := subtractSize(v, &left)
	b.left.Store(left)
	if !enough {
		return errHandled
	}
	return nil
}

// spendTop subtracts the size of v without the contents of its members, for operations that share members and do not walk them.
func (b *budget) spendTop(v any) error {
	size := int64(valueSize)
	switch v := v.(type) {
	case string:
		size += int64(len(v))
	case []any:
		size += int64(len(v)) * valueSize / 2
	case map[string]any:
		size += int64(len(v)) * valueSize
	}
	if b.left.Add(-size) < 0 {
		return errHandled
	}
	return nil
}

var errHandled = fmt.Errorf("it handles more than %d MiB", maxHandled>>20)

// subtractSize subtracts the size of v from left, and reports whether left was enough.
func subtractSize(v any, left *int64) bool {
	*left -= valueSize
	switch v := v.(type) {
	case string:
		*left -= int64(len(v))
	case json.Number:
		*left -= int64(len(v))
	case *big.Int:
		*left -= int64(v.BitLen() / 8)
	case []any:
		for _, member := range v {
			if !subtractSize(member, left) {
				return false
			}
		}
	case map[string]any:
		for name, member := range v {
			if *left -= int64(len(name)); !subtractSize(member, left) {
				return false
			}
		}
	}
	return *left >= 0
}

// The names of the guards, which are functions of the program.
const (
	guardCompared  = "_holdpoint_compared"
	guardFactor    = "_holdpoint_factor"
	guardSought    = "_holdpoint_sought"
	guardNumber    = "_holdpoint_number"
	guardNumbers   = "_holdpoint_numbers"
	guardIndex     = "_holdpoint_index"
	guardPath      = "_holdpoint_path"
	guardTable     = "_holdpoint_table"
	guardSize      = "_holdpoint_size"
	guardTop       = "_holdpoint_top"
	guardSeparator = "_holdpoint_separator"
)

// guardsWith returns the check of each guard. As a function of the program, a guard returns true or fails.
func guardsWith(b *budget) map[string]func(any) error {
	return map[string]func(any) error{
		guardCompared: func(v any) error {
			if left := maxCompared; !countDown(v, &left) {
				return fmt.Errorf("-, contains and inside take at most %d values on each side", maxCompared)
			}
			return nil
		},
		guardFactor: func(v any) error {
			if _, text := v.(string); text {
				return errors.New("* does not repeat texts here")
			}
			if n, large := v.(*big.Int); large && n.BitLen() > maxFactor {
				return fmt.Errorf("* takes numbers of at most %d bits", maxFactor)
			}
			return nil
		},
		guardSought: func(v any) error {
			if !isBrief(v) {
				return fmt.Errorf("index, rindex and indices look for at most %d elements or bytes", maxSought)
			}
			return nil
		},
		guardNumber: func(v any) error {
			if text, ok := v.(string); ok {
				var budget tool.NumberBudget
				return budget.Spend(text)
			}
			return nil
		},
		guardNumbers: func(v any) error {
			if text, ok := v.(string); ok {
				return tool.CheckNumbers(json.RawMessage(text))
			}
			return nil
		},
		guardIndex: checkIndex,
		guardPath: func(v any) error {
			path, _ := v.([]any)
			for _, part := range path {
				if err := checkIndex(part); err != nil {
					return err
				}
			}
			return nil
		},
		guardTable: func(v any) error {
			rows, _ := v.([]any)
			widest := 0
			for _, row := range rows {
				if row, ok := row.([]any); ok {
					widest = max(widest, len(row))
				}
			}
			if len(rows)*widest > maxIndexed {
				return fmt.Errorf("transpose makes at most %d elements", maxIndexed)
			}
			return nil
		},
		guardSize: b.spendSize,
		guardTop:  b.spendTop,
		guardSeparator: func(v any) error {
			if text, ok := v.(string); ok && len(text) > maxSeparator {
				return fmt.Errorf("join puts at most %d bytes between two values", maxSeparator)
			}
			return nil
		},
	}
}

// countDown subtracts the number of values in v, v included, from left, and reports whether left was enough.
func countDown(v any, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, member := range v {
			if !countDown(member, left) {
				return false
			}
		}
	case map[string]any:
		for _, member := range v {
			if !countDown(member, left) {
				return false
			}
		}
	}
	return true
}

func isBrief(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) <= maxSought
	case []any:
		left := maxSought + 1 // the list itself is one
		return countDown(v, &left)
	}
	return true
}

func checkIndex(v any) error {
	if _, isList := v.([]any); isList && !isBrief(v) {
		return fmt.Errorf("a list of more than %d elements is no index", maxSought)
	}
	if n, isNumber := gojq.ToFloat64(v); isNumber && n >= maxIndexed {
		return fmt.Errorf("an index is below %d", maxIndexed)
	}
	return nil
}

// guardsOf returns the guards of a function: for its input and for its first argument. "" is none.
func guardsOf(name string) (input, argument string) {
	switch name {
	case "contains", "inside":
		return guardCompared, guardCompared
	case "index", "rindex", "indices":
		return "", guardSought
	case "split":
		return guardTop, ""
	case "tonumber":
		return guardNumber, ""
	case "fromjson":
		return guardNumbers, ""
	case "setpath", "getpath":
		return "", guardPath
	case "transpose":
		return guardTable, ""
	case "tojson", "tostring", "add", "flatten", "format", "sort", "sort_by", "group_by", "unique", "unique_by",
		"min", "min_by", "max", "max_by":
		return guardSize, ""
	case "join":
		return guardSize, guardSeparator
	case "ascii_downcase", "ascii_upcase", "explode", "implode", "reverse", "ltrimstr", "rtrimstr", "trim", "ltrim", "rtrim":
		return guardTop, ""
	}
	return "", ""
}

// addNames adds the names of all functions in a part of a program.
func addNames(v reflect.Value, names map[string]bool) {
	switch v.Kind() { //nolint:exhaustive // other kinds hold no functions
	case reflect.Slice:
		for i := range v.Len() {
			addNames(v.Index(i), names)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			addNames(field, names)
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		switch node := v.Interface().(type) {
		case *gojq.Func:
			names[node.Name] = true
		case *gojq.FuncDef:
			names[node.Name] = true
		}
		addNames(v.Elem(), names)
	}
}

// replacement is one of the [replacementSource] functions, with guards in it.
type replacement struct {
	*gojq.FuncDef
	calls map[string]bool
}

var readReplacements = sync.OnceValues(func() ([]replacement, error) { //nolint:gochecknoglobals // a constant, parsed once
	query, err := gojq.Parse(replacementSource)
	if err != nil {
		return nil, err
	}
	list := make([]replacement, len(query.FuncDefs))
	for i, def := range query.FuncDefs {
		list[i] = replacement{def, map[string]bool{}}
		addNames(reflect.ValueOf(def.Body), list[i].calls)
	}
	guardQuery(query)
	return list, nil
})

// replacementsFor returns the functions of [replacementSource] that a program calls, directly or through another. It refuses names with
// an underscore: the library's internal functions, which would bypass the guards, and the guards themselves.
func replacementsFor(query *gojq.Query) ([]*gojq.FuncDef, error) {
	called := map[string]bool{}
	addNames(reflect.ValueOf(query), called)
	for name := range called {
		if strings.HasPrefix(name, "_") {
			return nil, fmt.Errorf("has the function %s: names that begin with _ are not for programs", plain.Quoted(name, 100))
		}
	}
	all, err := readReplacements()
	if err != nil {
		return nil, err
	}
	var own []*gojq.FuncDef
	for _, f := range slices.Backward(all) { // a function calls only those before it
		if called[f.Name] {
			own = append(own, f.FuncDef)
			maps.Copy(called, f.calls)
		}
	}
	slices.Reverse(own)
	return own, nil
}

// guardQuery inserts guards into a program.
func guardQuery(query *gojq.Query) { guardBelow(reflect.ValueOf(query)) }

// guardBelow walks the tree of a program bottom up, so that it does not walk the guards that it inserts.
func guardBelow(v reflect.Value) {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			guardBelow(v.Index(i))
		}
	}
	if v.Kind() == reflect.Struct {
		for _, field := range v.Fields() {
			guardBelow(field)
		}
	}
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return
	}
	guardBelow(v.Elem())
	switch node := v.Interface().(type) {
	case *gojq.Query:
		guardOperator(node)
	case *gojq.Term:
		guardCall(node)
	case *gojq.Array:
		if node.Query != nil {
			node.Query = addGuard(node.Query, guardTop)
		}
	case *gojq.String:
		// The values that are interpolated into the string.
		for i, part := range node.Queries {
			if part.Term == nil || part.Term.Str == nil { // not the literal text between the values
				node.Queries[i] = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: addGuard(part, guardSize)}}
			}
		}
	case *gojq.Index:
		if node.Start != nil && !node.IsSlice {
			node.Start = addGuard(node.Start, guardIndex)
		}
	}
}

func guardOperator(q *gojq.Query) {
	var guard string
	switch q.Op {
	case gojq.OpSub, gojq.OpUpdateSub:
		guard = guardCompared
	case gojq.OpMul, gojq.OpUpdateMul:
		guard = guardFactor
	case gojq.OpAdd, gojq.OpUpdateAdd:
		guard = guardTop
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		guard = guardSize
	default:
		return
	}
	q.Left, q.Right = addGuard(q.Left, guard), addGuard(q.Right, guard)
}

func guardCall(t *gojq.Term) {
	if t.Type == gojq.TermTypeFormat && t.Str == nil {
		call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFormat, Format: t.Format}}
		t.Type, t.Format = gojq.TermTypeQuery, ""
		t.Query = &gojq.Query{Left: guardTerm(guardSize), Op: gojq.OpPipe, Right: call}
	}
	if t.Type != gojq.TermTypeFunc {
		return
	}
	input, argument := guardsOf(t.Func.Name)
	if argument != "" && len(t.Func.Args) > 0 {
		t.Func.Args[0] = addGuard(t.Func.Args[0], argument)
	}
	if input != "" {
		call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: t.Func}}
		t.Type, t.Func = gojq.TermTypeQuery, nil
		t.Query = &gojq.Query{Left: guardTerm(input), Op: gojq.OpPipe, Right: call}
	}
}

// addGuard returns a query whose values pass through a guard. A path stays a path.
func addGuard(q *gojq.Query, guard string) *gojq.Query {
	if q.Term != nil && len(q.Term.SuffixList) == 0 && q.Term.Type == gojq.TermTypeNumber && guard != guardIndex {
		return q
	}
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: guardTerm(guard)}
}

// guardTerm returns the query: if guard then . else . end.
func guardTerm(guard string) *gojq.Query {
	same := func() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }
	condition := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: guard}}}
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIf, If: &gojq.If{Cond: condition, Then: same(), Else: same()}}}
}

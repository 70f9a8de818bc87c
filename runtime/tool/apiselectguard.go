package tool

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
)

// The operations of jq that one step of a program does at once, in a time or in memory that grows faster than what they are done on. A
// program that has one of them gets a guard before each, which fails where it would be done on too much: so what a server answers cannot
// make an operator's program take what it never took before.
const (
	mostCompared = 4000     // values on each side of what compares each with each
	mostSought   = 100      // elements, or characters, of what is looked for at each place
	mostMatched  = 16 << 10 // bytes of a text in which all matches of a regular expression are looked for
	mostFactor   = 1 << 16  // bits of a number that is multiplied
	mostIndexed  = 1 << 20  // elements of a list, or of a table, that one step makes

	// mostHandled are the bytes that all steps of a program together join, collect, compare, sort and write: so many of a text
	// and valueSize of each value. A value that stands in several places counts in each, where it is walked.
	mostHandled = 512 << 20
	valueSize   = 32
	mostBetween = valueSize // bytes that join puts between two values
)

// budget is what a program may still handle, in bytes.
type budget struct{ left atomic.Int64 }

// spend takes what v is worth.
func (b *budget) spend(v any) error {
	left := b.left.Load()
	enough := takeSize(v, &left)
	b.left.Store(left)
	if !enough {
		return errHandled
	}
	return nil
}

// spendTop takes what v is worth without what is in its members: where they are shared and not walked.
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

var errHandled = fmt.Errorf("it handles more than %d MiB", mostHandled>>20)

// takeSize takes the size of v from left; false: it is larger.
func takeSize(v any, left *int64) bool {
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
			if !takeSize(member, left) {
				return false
			}
		}
	case map[string]any:
		for name, member := range v {
			if *left -= int64(len(name)); !takeSize(member, left) {
				return false
			}
		}
	}
	return *left >= 0
}

// The names of guards, as functions of a program.
const (
	guardCompared = "_holdpoint_compared"
	guardFactor   = "_holdpoint_factor"
	guardSought   = "_holdpoint_sought"
	guardNumber   = "_holdpoint_number"
	guardNumbers  = "_holdpoint_numbers"
	guardIndex    = "_holdpoint_index"
	guardPath     = "_holdpoint_path"
	guardTable    = "_holdpoint_table"
	guardSize     = "_holdpoint_size"
	guardTop      = "_holdpoint_top"
	guardBetween  = "_holdpoint_between"
)

func guards(b *budget) map[string]func(any) error {
	return map[string]func(any) error{
		guardCompared: func(v any) error {
			if left := mostCompared; !countDown(v, &left) {
				return fmt.Errorf("-, contains and inside take at most %d values on each side", mostCompared)
			}
			return nil
		},
		guardFactor: func(v any) error {
			if _, text := v.(string); text {
				return errors.New("* does not repeat texts here")
			}
			if n, large := v.(*big.Int); large && n.BitLen() > mostFactor {
				return fmt.Errorf("* takes numbers of at most %d bits", mostFactor)
			}
			return nil
		},
		guardSought: func(v any) error {
			if !isBrief(v) {
				return fmt.Errorf("index, rindex and indices look for at most %d elements or bytes", mostSought)
			}
			return nil
		},
		guardNumber: func(v any) error {
			if text, ok := v.(string); ok {
				var budget NumberBudget
				return budget.Spend(text)
			}
			return nil
		},
		guardNumbers: func(v any) error {
			if text, ok := v.(string); ok {
				return checkNumbers(json.RawMessage(text))
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
		guardTable: checkTable,
		guardSize:  b.spend,
		guardTop:   b.spendTop,
		guardBetween: func(v any) error {
			if text, ok := v.(string); ok && len(text) > mostBetween {
				return fmt.Errorf("join puts at most %d bytes between two values", mostBetween)
			}
			return nil
		},
	}
}

// countDown takes the values of v, v among them, from left; false: there are more.
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
		return len(v) <= mostSought
	case []any:
		left := mostSought + 1 // the list itself is one
		return countDown(v, &left)
	}
	return true
}

func checkIndex(v any) error {
	if _, isList := v.([]any); isList && !isBrief(v) {
		return fmt.Errorf("a list of more than %d elements is no index", mostSought)
	}
	if n, isNumber := gojq.ToFloat64(v); isNumber && n >= mostIndexed {
		return fmt.Errorf("an index is below %d", mostIndexed)
	}
	return nil
}

func checkTable(v any) error {
	rows, _ := v.([]any)
	widest := 0
	for _, row := range rows {
		if row, ok := row.([]any); ok {
			widest = max(widest, len(row))
		}
	}
	if len(rows)*widest > mostIndexed {
		return fmt.Errorf("transpose makes at most %d elements", mostIndexed)
	}
	return nil
}

// guardFunctions are the guards for the compiler: functions that give true, or fail.
func guardFunctions(b *budget) []gojq.CompilerOption {
	var options []gojq.CompilerOption
	for name, check := range guards(b) {
		options = append(options, gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			if err := check(v); err != nil {
				return err
			}
			return true
		}))
	}
	return options
}

// guardedCalls are the functions that get guards: of their input, and of their first argument.
func guardedCalls(name string) (input, argument string) {
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
		return guardSize, guardBetween
	case "ascii_downcase", "ascii_upcase", "explode", "implode", "reverse", "ltrimstr", "rtrimstr", "trim", "ltrim", "rtrim":
		return guardTop, ""
	}
	return "", ""
}

// calledIn adds the names of all functions in a part of a program.
func calledIn(v reflect.Value, names map[string]bool) {
	switch v.Kind() { //nolint:exhaustive // nothing else has functions in it
	case reflect.Slice:
		for i := range v.Len() {
			calledIn(v.Index(i), names)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			calledIn(field, names)
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
		calledIn(v.Elem(), names)
	}
}

// function is one of [selectFunctions], with guards in it.
type function struct {
	*gojq.FuncDef
	calls map[string]bool
}

var readFunctions = sync.OnceValues(func() ([]function, error) { //nolint:gochecknoglobals // a constant, parsed once
	query, err := gojq.Parse(selectFunctions)
	if err != nil {
		return nil, err
	}
	list := make([]function, len(query.FuncDefs))
	for i, def := range query.FuncDefs {
		list[i] = function{def, map[string]bool{}}
		calledIn(reflect.ValueOf(def.Body), list[i].calls)
	}
	guardQuery(query)
	return list, nil
})

// ownFunctions are those of [selectFunctions] that a program calls, by itself or through another. It refuses the library's
// own functions, which go round the guards, and those of the guards.
func ownFunctions(query *gojq.Query) ([]*gojq.FuncDef, error) {
	called := map[string]bool{}
	calledIn(reflect.ValueOf(query), called)
	for name := range called {
		if strings.HasPrefix(name, "_") {
			return nil, fmt.Errorf("has the function %s: names that begin with _ are not for programs", plain.Quoted(name, 100))
		}
	}
	all, err := readFunctions()
	if err != nil {
		return nil, err
	}
	var own []*gojq.FuncDef
	for _, f := range slices.Backward(all) { // each calls those before it
		if called[f.Name] {
			own = append(own, f.FuncDef)
			maps.Copy(called, f.calls)
		}
	}
	slices.Reverse(own)
	return own, nil
}

// guardQuery puts guards into a program.
func guardQuery(query *gojq.Query) { guardBelow(reflect.ValueOf(query)) }

// guardBelow walks the tree of a program, what is below a node first: what is put in is not walked.
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
			node.Query = guarded(node.Query, guardTop)
		}
	case *gojq.String:
		guardText(node)
	case *gojq.Index:
		if node.Start != nil && !node.IsSlice {
			node.Start = guarded(node.Start, guardIndex)
		}
	}
}

// guardText guards the values that are written into a text.
func guardText(text *gojq.String) {
	for i, part := range text.Queries {
		if part.Term == nil || part.Term.Str == nil { // not the text between
			text.Queries[i] = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: guarded(part, guardSize)}}
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
	q.Left, q.Right = guarded(q.Left, guard), guarded(q.Right, guard)
}

func guardCall(t *gojq.Term) {
	if t.Type == gojq.TermTypeFormat && t.Str == nil {
		call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFormat, Format: t.Format}}
		t.Type, t.Format = gojq.TermTypeQuery, ""
		t.Query = &gojq.Query{Left: passing(guardSize), Op: gojq.OpPipe, Right: call}
	}
	if t.Type != gojq.TermTypeFunc {
		return
	}
	input, argument := guardedCalls(t.Func.Name)
	if argument != "" && len(t.Func.Args) > 0 {
		t.Func.Args[0] = guarded(t.Func.Args[0], argument)
	}
	if input != "" {
		call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: t.Func}}
		t.Type, t.Func = gojq.TermTypeQuery, nil
		t.Query = &gojq.Query{Left: passing(input), Op: gojq.OpPipe, Right: call}
	}
}

// guarded is a query whose values pass a guard. It stays a path, if it is one.
func guarded(q *gojq.Query, guard string) *gojq.Query {
	if q.Term != nil && len(q.Term.SuffixList) == 0 && q.Term.Type == gojq.TermTypeNumber && guard != guardIndex {
		return q
	}
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: passing(guard)}
}

// passing is: if guard then . else . end.
func passing(guard string) *gojq.Query {
	same := func() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }
	condition := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: guard}}}
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIf, If: &gojq.If{Cond: condition, Then: same(), Else: same()}}}
}

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Numbers are compared exactly, which takes time and memory by their size, not by the length of their text: 1e999999999 has a billion
// digits. So the size of numbers in values and schemas from outside is bounded.
const (
	maxDigits       = 1000
	maxExponent     = 999
	maxExponentsSum = 100_000 // of all numbers of one text
)

// NumberBudget is the budget for the numbers of one JSON text. Its zero value is unspent.
type NumberBudget struct {
	exponents int
}

// Spend spends the cost of a number in its notation, and returns an error if the number is too large.
func (b *NumberBudget) Spend(number string) error {
	if len(number) > maxDigits {
		return fmt.Errorf("number of %d characters, at most %d", len(number), maxDigits)
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(number[i+1:])
	if err != nil || exponent < -maxExponent || exponent > maxExponent {
		return fmt.Errorf("number with an exponent beyond ±%d", maxExponent)
	}
	if b.exponents += max(exponent, -exponent); b.exponents > maxExponentsSum {
		return fmt.Errorf("too many numbers with large exponents: together beyond %d", maxExponentsSum)
	}
	return nil
}

// CheckNumbers returns an error if the numbers of a JSON text cost more than one [NumberBudget].
func CheckNumbers(text json.RawMessage) error {
	var budget NumberBudget
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if token.Kind() != '0' {
			continue
		}
		if err := budget.Spend(token.String()); err != nil {
			return fmt.Errorf("%s: %w", Clip(string(decoder.StackPointer())), err)
		}
	}
}

// maxApplied bounds how many schemas may apply to one place of a value: nested allOf with two schemas each would apply 2^40 at 40 levels.
const maxApplied = 10_000

// checkCost returns an error for schemas that take too long to apply, and for schemas that apply themselves to the same value without an
// end (JSON Schema 2020-12, section 9.4.1).
func checkCost(schemas []*jsonschema.Schema) error {
	c := coster{costs: map[*jsonschema.Schema]int{}, counting: map[*jsonschema.Schema]bool{}}
	highest := 0
	for _, schema := range schemas {
		highest = max(highest, c.countSchemas(schema))
	}
	switch {
	case c.round != nil:
		_, at, _ := strings.Cut(c.round.Location, "#")
		return fmt.Errorf("the schema at %q applies itself to the same value again, without an end", Clip(at))
	case highest > maxApplied:
		return fmt.Errorf("more than %d schemas apply to one value", maxApplied)
	}
	return nil
}

type coster struct {
	costs    map[*jsonschema.Schema]int // of applying it to one place
	counting map[*jsonschema.Schema]bool
	round    *jsonschema.Schema // a schema that applies itself in place; nil: none was found
}

// findReachable returns some schemas and all that can be reached from them.
func findReachable(from []*jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{nil: true}
	var all []*jsonschema.Schema
	for waiting := from; len(waiting) > 0; {
		s := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		all = append(all, s)
		waiting = append(append(waiting, listInPlace(s)...), listNested(s)...)
	}
	return all
}

func (c *coster) countSchemas(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	if known, ok := c.costs[s]; ok {
		return known
	}
	if c.counting[s] {
		c.round = s
		return 1
	}
	c.counting[s] = true
	total := 1
	for _, next := range listInPlace(s) {
		total = min(total+c.countSchemas(next), maxApplied+1)
	}
	c.costs[s] = total
	return total
}

// listInPlace returns the schemas that apply to the same place as s.
func listInPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	list = append(append(append(list, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, next := range s.DependentSchemas {
		list = append(list, next)
	}
	for _, next := range s.Dependencies {
		if dependent, ok := next.(*jsonschema.Schema); ok {
			list = append(list, dependent)
		}
	}
	return list
}

// listNested returns the schemas that apply to members and elements.
func listNested(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{
		s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	}
	for _, next := range s.Properties {
		list = append(list, next)
	}
	for _, next := range s.PatternProperties {
		list = append(list, next)
	}
	list = append(list, s.PrefixItems...)
	for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch next := either.(type) {
		case *jsonschema.Schema:
			list = append(list, next)
		case []*jsonschema.Schema:
			list = append(list, next...)
		}
	}
	return list
}

// Clip shortens hostile text for an error.
func Clip(text string) string {
	const limit = 300
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

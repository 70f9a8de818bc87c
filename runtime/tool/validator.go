package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/bits"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The limits of one validation. The first pass only decides whether the value is valid, and keeps no errors. The second pass finds the
// errors of an invalid value.
const (
	baseApplications   = 100_000 // of schemas to values, for every value
	applicationsByByte = 16      // and for each byte of the value
	baseFindings       = 100_000 // likewise in the second pass, whose errors take memory
	findingsByByte     = 2
	levelsByFinding    = 32 // an error takes memory by its depth

	// maxValidationTime bounds one validation.
	maxValidationTime = 10 * time.Second
	// applicationsByLook is the number of applications between two checks of the time.
	applicationsByLook = 256

	MaxPatternSize    = 20_000  // instructions of one pattern
	maxPatternsSize   = 100_000 // of all patterns of one schema
	maxPatternWork    = 1 << 29 // instructions of a pattern times bytes of its text
	patternWorkByStep = 4096
	patternWorkByLook = 1 << 20 // between two checks of the time
	maxRegexFormat    = 4096    // bytes of a value of format regex

	maxIdleValidators = 8
)

// ErrTooComplex is wrapped by the errors of values that cannot be validated within the limits.
var ErrTooComplex = errors.New("too complex to check against its schema")

// validators are compiled forms of one schema. Each serves one validation at a time, because the library has no place for the state of a
// validation: it is in the meter that its schemas share.
//
// Results are not cached by schema and value. They also depend on the schemas around ($dynamicRef), and come with the evaluated parts
// (unevaluatedProperties), which the library does not expose. So the cost of one validation is limited, and a value that would cost more
// is refused.
type validators struct {
	name string
	doc  any

	mu   sync.Mutex
	idle []*validator
}

type validator struct {
	meter *meter
	whole *jsonschema.Schema // finds errors
	fails *jsonschema.Schema // {"not": whole}: stops at the first error of each value, and keeps none
}

func (v *validators) takeIdle() (*validator, error) {
	v.mu.Lock()
	if n := len(v.idle); n > 0 {
		one := v.idle[n-1]
		v.idle = v.idle[:n-1]
		v.mu.Unlock()
		return one, nil
	}
	v.mu.Unlock()
	return v.compileOne()
}

func (v *validators) putBack(one *validator) {
	one.meter.ctx = nil
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.idle) < maxIdleValidators {
		v.idle = append(v.idle, one)
	}
}

// noLoader returns an error for all references to other documents.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %q: references to other documents are not followed", url)
}

func (v *validators) compileOne() (_ *validator, err error) {
	defer func() {
		// The text is hostile. A schema that makes the library panic is invalid.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: cannot be used: %v", v.name, cause)
		}
	}()
	const base, negation = "tool:///schema.json", "tool:///negation.json"
	m := &meter{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(m.compilePattern)
	if err := c.AddResource(base, v.doc); err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	whole, err := c.Compile(base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	schemas := []*jsonschema.Schema{whole}
	for _, place := range dynamicAnchors(v.doc, "") {
		// These are only reached through the scope of a validation. An anchor that does not compile is never reached.
		if anchored, err := c.Compile(base + "#" + place); err == nil {
			schemas = append(schemas, anchored)
		}
	}
	schemas = findReachable(schemas)
	if err := checkCost(schemas); err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	if err := c.AddResource(negation, map[string]any{"not": map[string]any{"$ref": base}}); err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	fails, err := c.Compile(negation)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	for _, s := range schemas {
		m.watchSchema(s)
	}
	return &validator{meter: m, whole: whole, fails: fails}, nil
}

// dynamicAnchors returns the places (RFC 6901, as URL fragments) of the objects in a schema that have a $dynamicAnchor.
func dynamicAnchors(v any, at string) []string {
	var places []string
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$dynamicAnchor"].(string); ok {
			places = append(places, at)
		}
		for name, member := range v {
			places = append(places, dynamicAnchors(member, at+"/"+url.PathEscape(escapePointer(name)))...)
		}
	case []any:
		for i, member := range v {
			places = append(places, dynamicAnchors(member, fmt.Sprintf("%s/%d", at, i))...)
		}
	}
	return places
}

// checkValue validates a value. It returns nil if the value is valid. An error means that the value could not be validated, and must not
// pass.
func (v *validators) checkValue(ctx context.Context, value any, size int) (_ *jsonschema.ValidationError, err error) {
	one, err := v.takeIdle()
	if err != nil {
		return nil, err
	}
	defer v.putBack(one)
	limited, cancel := context.WithTimeout(ctx, maxValidationTime)
	defer cancel()
	one.meter.ctx = limited
	fits, err := one.checkFit(value, baseApplications+applicationsByByte*size)
	if err == nil && !fits {
		var invalid *jsonschema.ValidationError
		if invalid, err = one.findErrors(value, (baseFindings+findingsByByte*size)/(1+depthOf(value)/levelsByFinding)); err == nil {
			return invalid, nil
		}
	}
	if ctx.Err() != nil { // the request ended, not the time of one validation
		return nil, fmt.Errorf("validate: %w", ctx.Err())
	}
	return nil, err
}

// checkFit is the first pass.
func (one *validator) checkFit(value any, applications int) (fits bool, err error) {
	defer one.meter.startPass(applications)(&err)
	return one.fails.Validate(value) != nil, nil
}

// findErrors is the second pass. It never returns nil with a nil error.
func (one *validator) findErrors(value any, applications int) (invalid *jsonschema.ValidationError, err error) {
	defer one.meter.startPass(applications)(&err)
	err = one.whole.Validate(value)
	if errors.As(err, &invalid) {
		return invalid, nil
	}
	return nil, fmt.Errorf("it does not match its schema, for an unknown reason: %w", err)
}

// meter counts the cost of one validation, and ends it by a panic, because the library offers no other way.
type meter struct {
	ctx      context.Context // of the validation; nil while a schema is compiled
	left     int             // applications of schemas to values
	spent    int             // of all validations, for tests
	look     int             // applications until the next check of the time
	patterns int             // instructions of all compiled patterns
	key      []byte          // a buffer
}

type overspent struct{ err error }

// startPass starts a pass. The caller defers the returned function, which turns the panic into an error.
func (m *meter) startPass(applications int) func(*error) {
	m.left, m.look = applications, 0
	return func(err *error) {
		switch cause := recover().(type) {
		case nil:
		case overspent:
			*err = cause.err
		default: // the library panicked: the value does not pass
			*err = errors.New(Clip(fmt.Sprintf("cannot be validated: %v", cause)))
		}
	}
}

func (m *meter) spendApplications(applications int) {
	m.left -= applications
	m.spent += applications
	if m.left < 0 {
		panic(overspent{fmt.Errorf("%w: its parts have to be compared with too many schemas", ErrTooComplex)})
	}
	if m.look -= applications; m.look > 0 {
		return
	}
	m.look = applicationsByLook
	m.checkTime()
}

func (m *meter) checkTime() {
	if m.ctx.Err() != nil {
		panic(overspent{fmt.Errorf("%w: it takes longer than %s", ErrTooComplex, maxValidationTime)})
	}
}

// watchSchema makes a schema report each value that it is applied to, before it goes on to the value's parts. The library checks the
// format first, so this is a format.
func (m *meter) watchSchema(s *jsonschema.Schema) {
	before := s.Format
	always := 1 + len(s.Required)
	for _, next := range listInPlace(s) {
		if next != nil {
			always++
		}
	}
	// The library compares before the meter can count, and each value with each: it parsed every number of an enum again for every
	// number of an array. So the meter compares.
	if s.Const != nil {
		allowed := map[string]bool{string(m.appendKey(nil, *s.Const)): true}
		s.Extensions = append(s.Extensions, comparison{m, allowed, &kind.Const{Want: *s.Const}})
		s.Const = nil
	}
	if s.Enum != nil {
		allowed := make(map[string]bool, len(s.Enum.Values))
		for _, one := range s.Enum.Values {
			allowed[string(m.appendKey(nil, one))] = true
		}
		s.Extensions = append(s.Extensions, comparison{m, allowed, &kind.Enum{Want: s.Enum.Values}})
		s.Enum = nil
	}
	if s.UniqueItems {
		s.Extensions = append(s.Extensions, uniqueness{m})
		s.UniqueItems = false
	}
	names := 2 + len(s.PatternProperties)
	s.Format = &jsonschema.Format{Name: "", Validate: func(value any) error {
		cost := always
		switch value := value.(type) {
		case map[string]any:
			cost += names * len(value)
		case []any:
			cost += 2 * len(value)
		}
		m.spendApplications(cost)
		if before == nil {
			return nil
		}
		return before.Validate(value)
	}}
	if before != nil {
		s.Format.Name = before.Name
	}
}

// comparison implements const and enum.
type comparison struct {
	meter   *meter
	allowed map[string]bool // by their keys
	wrong   jsonschema.ErrorKind
}

// Validate implements [jsonschema.SchemaExt].
func (c comparison) Validate(at *jsonschema.ValidatorContext, value any) {
	c.meter.key = c.meter.appendKey(c.meter.key[:0], value)
	if !c.allowed[string(c.meter.key)] {
		at.AddError(c.wrong)
	}
}

// uniqueness implements uniqueItems.
type uniqueness struct{ meter *meter }

// Validate implements [jsonschema.SchemaExt].
func (u uniqueness) Validate(at *jsonschema.ValidatorContext, value any) {
	list, _ := value.([]any)
	seen := make(map[string]int, len(list))
	for i, item := range list {
		u.meter.key = u.meter.appendKey(u.meter.key[:0], item)
		if first, ok := seen[string(u.meter.key)]; ok {
			at.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[string(u.meter.key)] = i
	}
}

// appendKey appends a text that is the same for equal values, and different for others.
func (m *meter) appendKey(b []byte, value any) []byte {
	if m.ctx != nil {
		m.spendApplications(1)
	}
	switch value := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(value)) {
			b = m.appendKey(appendText(b, name), value[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, item := range value {
			b = m.appendKey(b, item)
		}
		return append(b, ']')
	case string:
		return appendText(b, value)
	case json.Number:
		if number := string(value); strings.ContainsAny(number, ".eE") || number == "-0" {
			if exact, ok := new(big.Rat).SetString(number); ok {
				return append(append(b, exact.RatString()...), ',') // an integer or a fraction
			}
		}
		return append(append(b, value...), ',')
	case bool:
		return strconv.AppendBool(b, value)
	}
	return append(b, "null"...)
}

func appendText(b []byte, text string) []byte {
	b = strconv.AppendInt(append(b, '"'), int64(len(text)), 10)
	return append(append(b, ':'), text...)
}

// pattern is a regular expression in linear time (RE2) whose work is counted.
type pattern struct {
	*regexp.Regexp
	meter *meter
	size  int
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(text string) bool {
	work := p.size * len(text)
	if p.meter.ctx == nil || work < patternWorkByLook {
		return p.Regexp.MatchString(text)
	}
	if work > maxPatternWork {
		panic(overspent{fmt.Errorf("%w: a text of %d bytes is too long for its pattern", ErrTooComplex, len(text))})
	}
	p.meter.spendApplications(work / patternWorkByStep)
	return p.MatchReader(&watchedText{*strings.NewReader(text), p, 0})
}

// watchedText checks the time while a pattern reads it, because a match cannot be interrupted otherwise.
type watchedText struct {
	strings.Reader
	pattern *pattern
	work    int
}

// ReadRune implements [io.RuneReader].
func (t *watchedText) ReadRune() (r rune, size int, err error) {
	if t.work -= t.pattern.size; t.work < 0 {
		t.work = patternWorkByLook
		t.pattern.meter.checkTime()
	}
	return t.Reader.ReadRune()
}

// compilePattern is the regular-expression engine of a schema. With the format "regex" it compiles values too.
func (m *meter) compilePattern(text string) (jsonschema.Regexp, error) {
	if m.ctx != nil {
		if len(text) > maxRegexFormat {
			panic(overspent{fmt.Errorf("%w: a regular expression of %d bytes, at most %d", ErrTooComplex, len(text), maxRegexFormat)})
		}
		m.spendApplications(applicationsByLook)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := PatternSize(parsed)
	if size > MaxPatternSize {
		return nil, fmt.Errorf("pattern of %d steps, at most %d", size, MaxPatternSize)
	}
	if m.ctx == nil {
		if m.patterns += size; m.patterns > maxPatternsSize {
			return nil, fmt.Errorf("all patterns together have more than %d steps", maxPatternsSize)
		}
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{Regexp: compiled, meter: m, size: size}, nil
}

// PatternSize estimates the number of instructions of a compiled regular expression. A character class counts the steps to find a
// character in it. The result is at most [MaxPatternSize] + 1.
func PatternSize(re *syntax.Regexp) int {
	size := 1 + bits.Len(uint(len(re.Rune)))
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size = min(size+PatternSize(sub), MaxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, MaxPatternSize+1)
}

// depthOf returns how deep a value is nested.
func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, depthOf(member))
		}
	case []any:
		for _, member := range v {
			deepest = max(deepest, depthOf(member))
		}
	default:
		return 0
	}
	return deepest + 1
}

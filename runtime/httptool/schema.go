package httptool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// direction is the way that values of a schema go.
type direction int

const (
	input direction = iota
	output
)

// schemas makes JSON Schema 2020-12 of a document's schemas (OpenAPI 3.0, section 4.7.24, and 3.1, section 4.8.24). What JSON Schema has no word for
// is dropped. Each schema that is referred to is converted once, for all that refer to it.
//
// A parent that lists its children, each of which is the parent and more (discriminator, allOf), has no end as JSON Schema: the list is left out.
//
// Schemas of outputs are made a little wider, because an answer that breaks one is an error though the API did what it was asked to:
// formats are left out, and of a oneOf more than one may fit. What is wider where a schema must not fit would refuse more: see [schemas.exact].
type schemas struct {
	doc  *document
	way  direction
	defs map[string]*definition // by reference
	name *names
	// steps are left for looking where references lead to.
	steps int
	// gathered are the names of hidden properties, by schema, and looks are left for finding more.
	gathered map[*value][]string
	looks    int
	// refs are those that the conversion at hand met.
	refs []string
}

// definition is one entry of $defs.
type definition struct {
	name   string
	target *value
	// What it was converted to, if it was.
	text []byte
	refs []string
	err  error
}

func newSchemas(doc *document, way direction) *schemas {
	return &schemas{
		doc: doc, way: way, defs: map[string]*definition{}, name: newNames(argumentNameLength, isArgumentName), steps: maxValues,
		gathered: map[*value][]string{}, looks: maxValues,
	}
}

// convert makes a schema of JSON Schema of one of the document. The references that it leads to are added to s.refs.
func (s *schemas) convert(v *value) (value, error) { return s.within(v, nil) }

// within converts a schema that applies to the same value as others, of which some properties do not go this way.
func (s *schemas) within(v *value, gone hiddenNames) (value, error) {
	switch {
	case v == nil:
		return boolean(true), nil
	case v.kind == 't', v.kind == 'f':
		return *v, nil
	case v.kind != '{':
		return value{}, errors.New("a schema is no object")
	}
	if ref := v.get("$ref"); ref.is('"') {
		return s.convertRef(v, ref.text, gone)
	}
	s.doc.spend(1 + len(v.members))
	gone = s.hidden(v, gone)
	result := object()
	for i := range v.members {
		m := &v.members[i]
		if err := s.keyword(&result, m.name, &m.value, gone); err != nil {
			return value{}, err
		}
	}
	s.open(v, &result)
	s.widen(v, &result, gone)
	s.exclusive(&result)
	hide(&result, gone)
	if v.get("nullable").isTrue() {
		result = nullable(result)
	}
	return result, nil
}

// convertRef: what stands beside a reference counts since 3.1; of 3.0 only what says nothing of values is kept.
func (s *schemas) convertRef(v *value, ref string, gone hiddenNames) (value, error) {
	def, err := s.define(ref)
	if err != nil {
		return value{}, err
	}
	s.refs = append(s.refs, ref)
	result := object()
	if rest := s.doc.beside(v); rest != nil {
		if result, err = s.within(rest, s.hidden(v, gone)); err != nil {
			return value{}, err
		}
	} else if description := v.get("description"); description.is('"') {
		result.set("description", *description)
	}
	if result.kind != '{' {
		result = object()
	}
	result.members = slices.Insert(result.members, 0, member{"$ref", text("#/$defs/" + def.name)})
	if v.get("nullable").isTrue() {
		result = nullable(result)
	}
	return result, nil
}

// define names what a reference leads to. It is converted when somebody needs it, see [schemas.reachable].
func (s *schemas) define(ref string) (*definition, error) {
	if def, ok := s.defs[ref]; ok {
		return def, nil
	}
	target, err := s.doc.lookup(ref)
	if err != nil {
		return nil, err
	}
	def := &definition{name: s.name.take(lastName(ref)), target: target}
	s.defs[ref] = def
	return def, nil
}

// complete converts a definition, once.
func (s *schemas) complete(def *definition) error {
	if def.text != nil || def.err != nil {
		return def.err
	}
	outer := s.refs
	s.refs = nil
	var converted value
	_, err := s.doc.follow(def.target) // no value would keep to a reference that leads to itself
	if err == nil {
		converted, err = s.convert(def.target)
	}
	if err != nil {
		def.err = fmt.Errorf("%s: %w", plain.Line(def.name, 64), err)
	} else {
		def.text, def.refs = converted.appendTo(nil), s.refs
	}
	s.refs = outer
	return def.err
}

var lastSegment = regexp.MustCompile(`[^/]*$`)

func lastName(ref string) string { return lastSegment.FindString(ref) }

// errTooLarge: a schema with all that it refers to is beyond its bound.
var errTooLarge = errors.New("it is too large")

// reachable are the definitions that some references lead to, by their names' order of appearance, and all that those lead to. Together they have
// at most limit bytes.
func (s *schemas) reachable(refs []string, limit int) ([]*definition, error) {
	seen := map[*definition]bool{}
	var list []*definition
	size := 0
	queue := slices.Clone(refs)
	for len(queue) > 0 {
		def := s.defs[queue[0]]
		queue = queue[1:]
		if seen[def] {
			continue
		}
		if err := s.complete(def); err != nil {
			return nil, err
		}
		seen[def] = true
		if size += len(def.text) + len(def.name) + 4; size > limit {
			return nil, errTooLarge
		}
		list = append(list, def)
		queue = append(queue, def.refs...)
	}
	return list, nil
}

// appendDefs writes the member $defs after others, if there is anything to define.
func (s *schemas) appendDefs(b []byte, refs []string, limit int) ([]byte, error) {
	list, err := s.reachable(refs, limit-len(b))
	if err != nil || len(list) == 0 {
		return b, err
	}
	b = append(b, `,"$defs":{`...)
	for i, def := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, def.name), ':')
		b = append(b, def.text...)
	}
	return append(b, '}'), nil
}

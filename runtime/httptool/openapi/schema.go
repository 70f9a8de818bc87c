package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// direction tells schemas of requests from schemas of answers.
type direction int

const (
	input direction = iota
	output
)

// converter converts the schemas of a document (OpenAPI 3.0, section 4.7.24, and 3.1, section 4.8.24) to JSON Schema 2020-12. It drops
// keywords that JSON Schema lacks. It converts a schema that others refer to once.
//
// A parent that lists its children, each of which is allOf the parent (discriminator), would be endless as JSON Schema: the converter
// leaves the list out.
//
// Schemas of answers become a little wider, because an answer that breaks its schema is an error although the API did its work:
// formats are left out, and more than one schema of a oneOf may match. A wider schema inside a not would accept less, see
// [converter.isExact].
type converter struct {
	doc       *document
	direction direction
	defs      map[string]*definition // by reference
	names     *nameSet
	// steps limits the search for cycles.
	steps int
	// hidden holds the names of hidden properties by schema, and lookups limits the search for them.
	hidden  map[*value][]string
	lookups int
	// refs are the references that the current conversion met.
	refs []string
}

// definition is one entry of $defs.
type definition struct {
	name   string
	target *value
	// The result of the conversion; all are empty before it.
	text []byte
	refs []string
	err  error
}

func newConverter(doc *document, to direction) *converter {
	return &converter{
		doc: doc, direction: to, defs: map[string]*definition{}, names: newNameSet(argumentNameLength, isArgumentRune), steps: maxValues,
		hidden: map[*value][]string{}, lookups: maxValues,
	}
}

// convertSchema converts a schema, and adds the references that it meets to s.refs.
func (s *converter) convertSchema(v *value) (value, error) { return s.convertWithin(v, nil) }

// convertWithin converts a schema that applies to a value some of whose properties are hidden.
func (s *converter) convertWithin(v *value, gone hiddenNames) (value, error) {
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
	gone = s.hiddenOf(v, gone)
	result := object()
	for i := range v.members {
		m := &v.members[i]
		if err := s.convertKeyword(&result, m.name, &m.value, gone); err != nil {
			return value{}, err
		}
	}
	s.dropClosings(v, &result)
	s.widenSchema(v, &result, gone)
	convertBounds(&result)
	removeHidden(&result, gone)
	if v.get("nullable").isTrue() {
		result = allowNull(result)
	}
	return result, nil
}

// convertRef converts a reference and names its target, which [converter.appendDefs] converts if a tool needs it. The members beside the
// reference count since 3.1; of 3.0 only the description is kept.
func (s *converter) convertRef(v *value, ref string, gone hiddenNames) (value, error) {
	def := s.defs[ref]
	if def == nil {
		target, err := s.doc.lookupRef(ref)
		if err != nil {
			return value{}, err
		}
		def = &definition{name: s.names.takeName(lastSegment.FindString(ref)), target: target}
		s.defs[ref] = def
	}
	s.refs = append(s.refs, ref)
	result := object()
	if rest := s.doc.besideRef(v); rest != nil {
		var err error
		if result, err = s.convertWithin(rest, s.hiddenOf(v, gone)); err != nil {
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
		result = allowNull(result)
	}
	return result, nil
}

// completeDefinition converts a definition unless that was done before.
func (s *converter) completeDefinition(def *definition) error {
	if def.text != nil || def.err != nil {
		return def.err
	}
	outer := s.refs
	s.refs = nil
	var converted value
	_, err := s.doc.followRef(def.target) // a reference that leads to itself matches nothing
	if err == nil {
		converted, err = s.convertSchema(def.target)
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

// errTooLarge: a schema, with all schemas that it refers to, is over its limit.
var errTooLarge = errors.New("it is too large")

// appendDefs appends the member $defs for some references, unless it would be empty: the definitions that they lead to, directly or
// through other definitions, in order of appearance. The text has at most limit bytes.
func (s *converter) appendDefs(b []byte, refs []string, limit int) ([]byte, error) {
	seen := map[*definition]bool{}
	var list []*definition
	size := len(b)
	queue := slices.Clone(refs)
	for len(queue) > 0 {
		def := s.defs[queue[0]]
		queue = queue[1:]
		if seen[def] {
			continue
		}
		if err := s.completeDefinition(def); err != nil {
			return b, err
		}
		seen[def] = true
		if size += len(def.text) + len(def.name) + 4; size > limit {
			return b, errTooLarge
		}
		list = append(list, def)
		queue = append(queue, def.refs...)
	}
	if len(list) == 0 {
		return b, nil
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

// convertKeyword converts a member of a schema. It ignores members that JSON Schema lacks and members of the wrong kind.
func (s *converter) convertKeyword(result *value, name string, v *value, gone hiddenNames) error {
	switch name {
	case "properties", "patternProperties":
		return s.convertMembers(result, name, v, '{', nil)
	case "dependentSchemas":
		return s.convertMembers(result, name, v, '{', gone)
	case "allOf", "anyOf", "oneOf":
		if name != "allOf" && s.isCyclic(v) {
			return nil
		}
		return s.convertMembers(result, name, v, '[', gone)
	case "prefixItems":
		return s.convertMembers(result, name, v, '[', nil)
	case "items":
		if v.kind == '[' { // JSON Schema before 2020-12
			return s.convertMembers(result, "prefixItems", v, '[', nil)
		}
		return s.convertMember(result, name, v, nil)
	case "not", "if", "then", "else":
		return s.convertMember(result, name, v, gone)
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames":
		return s.convertMember(result, name, v, nil)
	case "title", "description":
		if v.kind == '"' {
			result.set(name, *v)
		}
	case "required":
		if required := v.strings(); len(required) > 0 {
			result.set(name, texts(removeDuplicates(required)))
		}
	case "enum":
		if v.kind == '[' && len(v.members) > 0 {
			result.set(name, *v)
		}
	case "pattern":
		if v.kind == '"' && s.doc.isPattern(v.text) {
			result.set(name, *v)
		}
	case "default", "format", "contentMediaType", "contentEncoding", "deprecated":
		if s.direction == input {
			result.set(name, *v)
		}
	case "writeOnly": // the dashboard masks such arguments
		if s.direction == input && v.kind == 't' {
			result.set(name, *v)
		}
	case "type", "const", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems",
		"uniqueItems", "maxProperties", "minProperties", "dependentRequired", "minContains", "maxContains":
		result.set(name, *v)
	}
	return nil
}

// convertMembers converts the schemas in an array or an object.
func (s *converter) convertMembers(result *value, name string, v *value, kind jsontext.Kind, gone hiddenNames) error {
	if v.kind != kind || kind == '[' && len(v.members) == 0 {
		return nil
	}
	list := value{kind: kind}
	for i := range v.members {
		m := &v.members[i]
		if name == "patternProperties" && !s.doc.isPattern(m.name) {
			continue
		}
		converted, err := s.convertWithin(&m.value, gone)
		if err != nil {
			return err
		}
		list.members = append(list.members, member{m.name, converted})
	}
	result.set(name, list)
	return nil
}

func (s *converter) convertMember(result *value, name string, v *value, gone hiddenNames) error {
	converted, err := s.convertWithin(v, gone)
	if err != nil {
		return err
	}
	result.set(name, converted)
	return nil
}

// convertBounds converts the flags exclusiveMinimum and exclusiveMaximum of 3.0 to the numbers of JSON Schema.
func convertBounds(result *value) {
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		flag, bound := result.get(pair[0]), result.get(pair[1])
		if flag == nil || flag.kind == '0' {
			continue
		}
		isSet := flag.isTrue()
		result.drop(pair[0])
		if isSet && bound.is('0') {
			limit := *bound
			result.drop(pair[1])
			result.set(pair[0], limit)
		}
	}
}

// dropClosings drops keywords that would refuse members which a dropped pattern or a dropped list of children would accept.
func (s *converter) dropClosings(v, result *value) {
	for _, name := range []string{"anyOf", "oneOf"} {
		if len(v.get(name).all()) > 0 && result.get(name) == nil {
			result.drop("unevaluatedProperties")
			result.drop("unevaluatedItems")
		}
	}
	patterns := v.get("patternProperties")
	unknown := func(m member) bool { return !s.doc.isPattern(m.name) }
	if patterns.is('{') && slices.ContainsFunc(patterns.members, unknown) {
		result.drop("additionalProperties")
		result.drop("unevaluatedProperties")
	}
}

// allowNull widens a schema to accept null.
func allowNull(v value) value {
	null := text("null")
	if enum := v.get("enum"); enum != nil && !slices.ContainsFunc(enum.members, func(m member) bool { return m.value.kind == 'n' }) {
		v.set("enum", value{kind: '[', members: append(slices.Clone(enum.members), member{value: value{kind: 'n'}})})
	}
	kind := v.get("type")
	switch {
	case kind.is('"') && kind.text != "null":
		v.set("type", array(*kind, null))
	case kind.is('[') && !slices.Contains(kind.strings(), "null"):
		v.set("type", value{kind: '[', members: append(slices.Clone(kind.members), member{value: null})})
	}
	for _, combined := range []string{"$ref", "allOf", "anyOf", "oneOf", "const"} {
		if v.get(combined) != nil {
			return object(member{"anyOf", array(v, object(member{"type", null}))})
		}
	}
	return v
}

// removeDuplicates keeps the first of equal strings.
func removeDuplicates(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		before := seen[s]
		seen[s] = true
		return before
	})
}

package condition

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
)

type kind uint8

const (
	untyped kind = iota // any value
	stringKind
	integerKind
	numberKind
	booleanKind
	listKind
	mapKind // an object with any names
	objectKind
)

// shape is what a JSON Schema says about a value, as far as conditions care.
type shape struct {
	kind     kind
	path     string // from args, for messages: args.items[].price
	nullable bool
	enum     []string // the only values of a string; nil: any
	elem     *shape   // of a list or a map
	fields   map[string]*shape
	variants map[string][]string // names of fields by [foldName]
	rest     *shape              // of members that fields does not have
	maxSize  uint64              // characters of a string, elements of a list; 0: unknown

	typeName string // of an object, in the type checker
}

func newUntyped(path string) *shape {
	s := &shape{kind: untyped, path: path}
	s.elem = s
	return s
}

// celType returns the type of the value in CEL.
func (s *shape) celType() *types.Type {
	var t *types.Type
	switch s.kind {
	case stringKind:
		t = types.StringType
	case integerKind:
		t = types.IntType
	case numberKind:
		t = types.DoubleType
	case booleanKind:
		t = types.BoolType
	case listKind:
		return types.NewListType(s.elem.celType())
	case mapKind:
		return types.NewMapType(types.StringType, s.elem.celType())
	case objectKind:
		return types.NewObjectType(s.typeName)
	case untyped:
		return types.DynType
	}
	if s.nullable {
		return types.NewNullableType(t)
	}
	return t
}

// Limits of schemas. What lies beyond is untyped.
const (
	maxShapes     = 5000
	maxShapeDepth = 50
)

// schemaReader makes shapes of a JSON Schema document.
type schemaReader struct {
	root    any
	objects map[string]*shape // by type name
	count   int
}

// part is a schema that a value must match, and the references that led to it.
type part struct {
	schema any
	refs   []string
}

// constraints is the conjunction of all schemas that one value must match.
type constraints struct {
	types     map[string]bool // nil: any
	enum      []string
	hasEnum   bool
	fields    map[string][]part
	values    []part // additionalProperties
	items     []part
	tuple     bool // items of different types
	closed    bool // no additional properties
	patterns  bool // names by pattern
	maxLength uint64
	maxItems  uint64
	conflict  bool // no type that CEL has
}

// readShape returns the shape of a value that must match all parts.
func (r *schemaReader) readShape(parts []part, path string, depth int) *shape {
	r.count++
	if r.count > maxShapes || depth > maxShapeDepth {
		return newUntyped(path)
	}
	var c constraints
	for _, p := range parts {
		r.collectKeywords(&c, p)
	}
	s := &shape{path: path, nullable: c.types["null"]}
	alternatives := slices.DeleteFunc(slices.Sorted(maps.Keys(c.types)), func(name string) bool { return name == "null" })
	if slices.Contains(alternatives, "integer") && slices.Contains(alternatives, "number") {
		alternatives = slices.DeleteFunc(alternatives, func(name string) bool { return name == "integer" })
	}
	if c.types == nil {
		switch {
		case len(c.fields) > 0:
			alternatives = []string{"object"}
		case len(c.items) > 0:
			alternatives = []string{"array"}
		}
	}
	if c.conflict || len(alternatives) != 1 {
		return newUntyped(path)
	}
	switch alternatives[0] {
	case "string":
		s.kind, s.maxSize = stringKind, c.maxLength
		if c.hasEnum {
			s.enum = c.enum
		}
	case "integer":
		s.kind = integerKind
	case "number":
		s.kind = numberKind
	case "boolean":
		s.kind = booleanKind
	case "array":
		s.kind, s.maxSize = listKind, c.maxItems
		s.elem = newUntyped(path + "[]")
		if !c.tuple && len(c.items) > 0 {
			s.elem = r.readShape(c.items, path+"[]", depth+1)
		}
	case "object":
		r.readObject(s, &c, depth)
	default:
		return newUntyped(path)
	}
	if s.nullable && (s.kind == listKind || s.kind == mapKind) { // CEL has no nullable lists and maps
		return newUntyped(path)
	}
	return s
}

func (r *schemaReader) readObject(s *shape, c *constraints, depth int) {
	if len(c.fields) == 0 && (!c.closed || c.patterns) {
		s.kind, s.elem = mapKind, newUntyped(s.path+"[]")
		if len(c.values) > 0 && !c.patterns {
			s.elem = r.readShape(c.values, s.path+"[]", depth+1)
		}
		return
	}
	s.kind = objectKind
	s.typeName = objectTypePrefix + strconv.Itoa(len(r.objects))
	r.objects[s.typeName] = s
	s.fields, s.variants = make(map[string]*shape, len(c.fields)), make(map[string][]string, len(c.fields))
	for _, name := range slices.Sorted(maps.Keys(c.fields)) {
		s.fields[name] = r.readShape(c.fields[name], joinPath(s.path, name), depth+1)
		s.variants[foldName(name)] = append(s.variants[foldName(name)], name)
	}
	s.rest = newUntyped(s.path)
}

// objectTypePrefix begins the names of objects' types. It is no identifier, so that no condition can name the type.
const objectTypePrefix = "object#"

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// joinPath returns the path of a member as a condition writes it.
func joinPath(path, name string) string {
	if identifier.MatchString(name) && name != "in" && name != "true" && name != "false" && name != "null" {
		return path + "." + name
	}
	return path + ".`" + clipText(name) + "`"
}

// collectKeywords adds a schema to the constraints.
func (r *schemaReader) collectKeywords(c *constraints, p part) {
	schema, ok := p.schema.(map[string]any)
	if !ok {
		return // true or false
	}
	if ref, ok := schema["$ref"].(string); ok {
		target, found := r.resolveRef(ref)
		if !found || slices.Contains(p.refs, ref) || len(p.refs) > maxShapeDepth {
			c.conflict = true
		} else {
			r.collectKeywords(c, part{target, append(slices.Clone(p.refs), ref)})
		}
	}
	if _, ok := schema["$dynamicRef"]; ok {
		c.conflict = true
	}
	c.addTypes(schema)
	c.addEnum(schema)
	addBound(&c.maxLength, schema["maxLength"])
	addBound(&c.maxItems, schema["maxItems"])
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			c.addField(name, part{property, p.refs})
		}
	}
	switch additional := schema["additionalProperties"].(type) {
	case bool:
		c.closed = c.closed || !additional
	case map[string]any:
		c.values = append(c.values, part{additional, p.refs})
	}
	if _, ok := schema["patternProperties"]; ok {
		c.patterns = true
	}
	switch items := schema["items"].(type) {
	case map[string]any:
		c.items = append(c.items, part{items, p.refs})
	case []any:
		c.tuple = true
	}
	if _, ok := schema["prefixItems"]; ok {
		c.tuple = true
	}
	if all, ok := schema["allOf"].([]any); ok {
		for _, one := range all {
			r.collectKeywords(c, part{one, p.refs})
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if alternatives, ok := schema[keyword].([]any); ok {
			r.collectAlternatives(c, alternatives, p.refs)
		}
	}
}

func (c *constraints) addField(name string, p part) {
	if c.fields == nil {
		c.fields = make(map[string][]part)
	}
	c.fields[name] = append(c.fields[name], p)
}

func (c *constraints) addTypes(schema map[string]any) {
	var names []string
	switch t := schema["type"].(type) {
	case string:
		names = []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				names = append(names, name)
			}
		}
	default:
		return
	}
	if nullable, _ := schema["nullable"].(bool); nullable { // OpenAPI 3.0
		names = append(names, "null")
	}
	c.limitTypes(names)
}

// limitTypes keeps the types that are in names.
func (c *constraints) limitTypes(names []string) {
	kept := make(map[string]bool)
	for _, name := range names {
		switch {
		case c.types == nil, c.types[name]:
			kept[name] = true
		case name == "integer" && c.types["number"], name == "number" && c.types["integer"]:
			kept["integer"] = true
		}
	}
	c.types = kept
	c.conflict = c.conflict || len(kept) == 0
}

// addEnum adds the values of enum and const. Without a type they say the type too.
func (c *constraints) addEnum(schema map[string]any) {
	values, ok := schema["enum"].([]any)
	if constant, found := schema["const"]; found {
		values, ok = []any{constant}, true
	}
	if !ok {
		return
	}
	var texts, names []string
	for _, value := range values {
		switch v := value.(type) {
		case string:
			names = append(names, "string")
			texts = append(texts, v)
		case bool:
			names = append(names, "boolean")
		case nil:
			names = append(names, "null")
		case json.Number:
			if strings.ContainsAny(v.String(), ".eE") {
				names = append(names, "number")
			} else {
				names = append(names, "integer")
			}
		case []any:
			names = append(names, "array")
		case map[string]any:
			names = append(names, "object")
		}
	}
	if _, typed := schema["type"]; !typed && c.types == nil {
		c.limitTypes(names)
	}
	if c.hasEnum {
		texts = slices.DeleteFunc(texts, func(text string) bool { return !slices.Contains(c.enum, text) })
	}
	c.enum, c.hasEnum = texts, true
}

func addBound(bound *uint64, value any) {
	number, ok := value.(json.Number)
	if !ok {
		return
	}
	if n, err := strconv.ParseUint(number.String(), 10, 64); err == nil && (*bound == 0 || n < *bound) {
		*bound = max(n, 1)
	}
}

// collectAlternatives adds anyOf or oneOf: alternatives of one type, with or without null, and objects whose fields are joined. Other
// alternatives make the value untyped.
func (r *schemaReader) collectAlternatives(c *constraints, alternatives []any, refs []string) {
	var typed []*constraints
	null := false
	for _, alternative := range alternatives {
		one := &constraints{}
		r.collectKeywords(one, part{alternative, refs})
		switch {
		case one.conflict:
			c.conflict = true
			return
		case len(one.types) == 1 && one.types["null"]:
			null = true
		case one.types != nil || len(one.fields) > 0 || len(one.items) > 0 || one.hasEnum:
			typed = append(typed, one)
		case c.types == nil && len(c.fields) == 0: // anything is possible
			c.conflict = true
			return
		}
	}
	if len(typed) == 0 {
		if null && c.types == nil {
			c.limitTypes([]string{"null"})
		}
		return
	}
	if len(typed) == 1 {
		c.mergeConstraints(typed[0], null)
		return
	}
	joined := &constraints{hasEnum: true}
	names := make(map[string]bool)
	places := make(map[string][]part)
	for _, one := range typed {
		if one.types == nil {
			one.types = map[string]bool{"object": true}
		}
		maps.Copy(names, one.types)
		joined.enum = append(joined.enum, one.enum...)
		joined.hasEnum = joined.hasEnum && one.hasEnum
		joined.maxLength = joinBound(joined.maxLength, one.maxLength, one == typed[0])
		joined.tuple = joined.tuple || len(one.items) > 0 || one.tuple
		for name, parts := range one.fields {
			places[name] = append(places[name], parts...)
		}
	}
	for name, parts := range places {
		joined.addField(name, joinAlternatives(parts))
	}
	joined.types = names
	if !joined.hasEnum {
		joined.enum = nil
	}
	c.mergeConstraints(joined, null)
}

// joinAlternatives returns the schema of a field that several alternatives have.
func joinAlternatives(parts []part) part {
	if len(parts) == 1 {
		return parts[0]
	}
	var schemas []any
	var refs []string
	for _, p := range parts {
		schemas = append(schemas, p.schema)
		refs = append(refs, p.refs...)
	}
	return part{map[string]any{"anyOf": schemas}, refs}
}

func joinBound(bound, other uint64, first bool) uint64 {
	if first {
		return other
	}
	if bound == 0 || other == 0 {
		return 0
	}
	return max(bound, other)
}

// mergeConstraints adds the constraints of alternatives, and null if it is one of them.
func (c *constraints) mergeConstraints(other *constraints, null bool) {
	if other.types != nil {
		names := slices.Collect(maps.Keys(other.types))
		if null || other.types["null"] {
			names = append(names, "null")
		}
		c.limitTypes(names)
	}
	if other.hasEnum && !c.hasEnum {
		c.enum, c.hasEnum = other.enum, true
	}
	for name, parts := range other.fields {
		for _, p := range parts {
			c.addField(name, p)
		}
	}
	c.values = append(c.values, other.values...)
	c.items = append(c.items, other.items...)
	c.tuple = c.tuple || other.tuple
	c.closed = c.closed || other.closed && len(other.fields) == 0
	c.patterns = c.patterns || other.patterns
	if c.maxLength == 0 {
		c.maxLength = other.maxLength
	}
	if c.maxItems == 0 {
		c.maxItems = other.maxItems
	}
}

// resolveRef returns the schema that a reference within the document names.
func (r *schemaReader) resolveRef(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, false
	}
	at := r.root
	if pointer == "" {
		return at, true
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			if at, ok = v[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

func decodeSchema(schema json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, err
	}
	return root, nil
}

func (s *shape) fieldNames() []string { return slices.Sorted(maps.Keys(s.fields)) }

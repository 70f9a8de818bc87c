package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// answer describes the success responses of an operation.
type answer struct {
	accept   string // for the header Accept
	schema   []byte // nil: none
	noSchema string // why the document's schema is not used
}

var success = regexp.MustCompile(`^2([0-9][0-9]|[xX][xX])$`)

// readAnswer reads the success responses of an operation. There is a schema only if all of them are JSON with the same schema. Otherwise
// a correct answer could break it.
func (b *builder) readAnswer(o *operation) answer {
	var made answer
	var schemas []*value
	var types []string
	responses := o.object.get("responses").all()
	b.doc.spend(len(responses))
	for i := range responses {
		m := &responses[i]
		if !success.MatchString(m.name) {
			continue
		}
		response, err := b.doc.followRef(&m.value)
		if err != nil {
			made.noSchema = err.Error()
			continue
		}
		b.doc.spend(len(response.get("content").all()))
		schema, media := acceptedMedia(response.get("content"))
		schemas = append(schemas, schema)
		types = append(types, media...)
	}
	made.accept = strings.Join(removeDuplicates(types), ", ")
	first := slices.IndexFunc(schemas, func(v *value) bool { return v != nil })
	switch {
	case o.method == "HEAD" || first < 0 || made.noSchema != "":
		return made
	case slices.ContainsFunc(schemas, func(v *value) bool { return !v.equal(schemas[first]) }):
		made.noSchema = "its success responses have different schemas"
		return made
	}
	schema, err := b.convertOutput(schemas[first])
	if errors.Is(err, errTooLarge) {
		err = fmt.Errorf("its output schema is larger than %d KiB", b.limits.OutputBytes>>10)
	}
	if err != nil {
		made.noSchema = err.Error()
		return made
	}
	made.schema = schema
	return made
}

// Servers limit the length of the header Accept.
const (
	maxTypes = 10
	maxType  = 128 // bytes
)

// acceptedMedia returns the media types to accept: JSON and its schema if there is any, otherwise all types.
func acceptedMedia(content *value) (*value, []string) {
	var others []string
	var json *member
	for i := range content.all() {
		m := &content.members[i]
		base := mediaType(m.name)
		switch {
		case base == "application/json", IsJSON(m.name) && json == nil:
			json = m
		case base != "" && len(others) < maxTypes && len(m.name) <= maxType:
			others = append(others, m.name)
		}
		if base == "application/json" {
			break
		}
	}
	if json != nil && len(json.name) <= maxType {
		return json.value.get("schema"), []string{json.name}
	}
	return nil, others
}

// The kinds of values that a schema accepts.
const (
	rootUnknown = iota
	rootObject
	rootOther
)

// rootKind reports whether the values of a schema are objects.
func (b *builder) rootKind(v *value) int {
	budget := maxVisited
	return b.rootKindWithin(v, &budget)
}

func (b *builder) rootKindWithin(v *value, budget *int) int {
	if *budget--; !v.is('{') || *budget < 0 || v.get("nullable").isTrue() {
		return rootUnknown
	}
	if ref := v.get("$ref"); ref.is('"') {
		target, err := b.doc.lookupRef(ref.text)
		if err != nil {
			return rootUnknown
		}
		if kind := b.rootKindWithin(target, budget); kind != rootUnknown {
			return kind
		}
		return b.rootKindWithin(b.doc.besideRef(v), budget)
	}
	switch kind := v.get("type"); {
	case kind.is('"') && kind.text == "object":
		return rootObject
	case kind.is('"'):
		return rootOther
	case kind.is('['):
		if kinds := kind.strings(); slices.Equal(kinds, []string{"object"}) {
			return rootObject
		} else if !slices.Contains(kinds, "object") {
			return rootOther
		}
		return rootUnknown
	case v.get("properties").is('{'):
		return rootObject
	case v.get("items") != nil:
		return rootOther
	}
	for i := range v.get("allOf").all() {
		if kind := b.rootKindWithin(&v.get("allOf").members[i].value, budget); kind != rootUnknown {
			return kind
		}
	}
	found := rootUnknown
	for _, name := range []string{"oneOf", "anyOf"} {
		for i := range v.get(name).all() {
			kind := b.rootKindWithin(&v.get(name).members[i].value, budget)
			if kind == rootUnknown || i > 0 && kind != found {
				return rootUnknown
			}
			found = kind
		}
	}
	return found
}

// convertOutput returns the schema of structuredContent, which is an object: other values become its member result.
func (b *builder) convertOutput(v *value) ([]byte, error) {
	kind := b.rootKind(v)
	if kind == rootUnknown {
		return nil, errors.New("it does not say whether answers are objects")
	}
	b.out.refs = nil
	for hops := 0; kind == rootObject && v.get("$ref").is('"') && b.doc.besideRef(v) == nil && hops < maxHops; hops++ {
		var err error
		if v, err = b.doc.lookupRef(v.get("$ref").text); err != nil {
			return nil, err
		}
	}
	converted, err := b.out.convertSchema(v)
	if err != nil {
		return nil, err
	}
	if kind == rootObject {
		converted.set("type", text("object")) // MCP requires it, also beside allOf
	} else {
		converted = object(member{"type", text("object")}, member{"properties", object(member{"result", converted})}, member{"required", texts([]string{"result"})})
	}
	schema := converted.appendTo(nil)
	schema, err = b.out.appendDefs(schema[:len(schema)-1], b.out.refs, b.limits.OutputBytes)
	if err == nil && len(schema) >= b.limits.OutputBytes {
		err = errTooLarge
	}
	return append(schema, '}'), err
}

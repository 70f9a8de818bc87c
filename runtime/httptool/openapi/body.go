package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// readBody reads the request body of an operation. Nil: it has none.
func (b *builder) readBody(o *operation) (*bodyArguments, error) {
	v, err := b.doc.followRef(o.object.get("requestBody"))
	if err != nil {
		return nil, fmt.Errorf("requestBody: %w", err)
	}
	content := v.get("content")
	if len(content.all()) == 0 {
		return nil, nil
	}
	required := v.get("required").isTrue()
	if o.method == "GET" || o.method == "HEAD" { // their content has no meaning (RFC 9110, section 9.3.1)
		if required {
			return nil, fmt.Errorf("requestBody: a %s has none", o.method)
		}
		return nil, nil
	}
	b.doc.spend(len(content.all()))
	media, kind := chooseMedia(content)
	if kind == "" {
		return nil, errors.New("requestBody: none of its media types is one")
	}
	made := &bodyArguments{body: Body{Kind: kind, Media: contentType(media, kind), Required: required}}
	mediaObject := content.get(media)
	switch kind {
	case BodyText, BodyBytes:
		schema := object(member{"type", text("string")})
		if kind == BodyBytes {
			schema.set("contentEncoding", text("base64"))
		}
		made.whole = &argument{name: "body", in: InBody, required: required, schema: addAnnotations(schema, v.get("description").str(), false)}
		return made, nil
	}
	if err := b.readFields(made, mediaObject, v.get("description").str()); err != nil {
		return nil, fmt.Errorf("requestBody: %w", err)
	}
	return made, nil
}

// readFields reads a body that has members. Each member is an argument if all members are known.
func (b *builder) readFields(made *bodyArguments, media *value, description string) error {
	schema := media.get("schema")
	flat := &flatBody{doc: b.doc, properties: map[string][]*value{}, required: map[string]bool{}}
	if flat.addSchema(schema) {
		hidden := b.in.hiddenOf(schema, nil)
		flat.names = slices.DeleteFunc(flat.names, func(name string) bool { return hidden[name] })
	} else {
		flat.names = nil
	}
	if len(flat.names) > 0 {
		return b.addFields(made, flat, media.get("encoding"))
	}
	if made.body.Kind != BodyJSON && b.rootKind(schema) != rootObject {
		return fmt.Errorf("of %s only objects are written", made.body.Media)
	}
	converted, err := b.in.convertSchema(schema)
	if err != nil {
		return err
	}
	if converted.get("description") == nil {
		converted = addAnnotations(converted, description, false)
	}
	made.whole = &argument{name: "body", in: InBody, required: made.body.Required, schema: converted}
	return nil
}

// addFields adds an argument for each property. A body with a required property is required.
func (b *builder) addFields(made *bodyArguments, flat *flatBody, encoding *value) error {
	for _, name := range flat.names {
		a := argument{name: name, in: InBody, required: flat.required[name], field: Field{Name: name}}
		made.body.Required = made.body.Required || a.required
		schema := flat.properties[name][0]
		if len(flat.properties[name]) > 1 {
			all := object(member{"allOf", value{kind: '['}})
			for _, part := range flat.properties[name] {
				all.members[0].value.members = append(all.members[0].value.members, member{value: *part})
			}
			schema = &all
		}
		var err error
		if a.schema, err = b.in.convertSchema(schema); err != nil {
			return fmt.Errorf("%s: %w", plain.Quoted(name, 100), err)
		}
		if made.body.Kind != BodyJSON {
			b.readEncoding(&a, made.body.Kind, flat.properties[name][0], b.doc.findChild(encoding, name))
		}
		made.fields = append(made.fields, a)
	}
	return nil
}

// chooseMedia returns the media type of a body that describes it best, and the kind of that body.
func chooseMedia(content *value) (media, kind string) {
	rank := func(media string) (int, string) {
		base := mediaType(media)
		switch {
		case base == "":
			return 0, ""
		case base == "application/json":
			return 9, BodyJSON
		case strings.HasSuffix(base, "+json"):
			return 8, BodyJSON
		case base == "application/x-www-form-urlencoded":
			return 7, BodyForm
		case base == "multipart/form-data":
			return 6, BodyMultipart
		case base == "*/*" || base == "application/*":
			return 5, BodyJSON
		case base == "text/plain":
			return 4, BodyText
		case strings.HasPrefix(base, "text/"), strings.HasSuffix(base, "+xml"), base == "application/xml", base == "application/yaml":
			return 3, BodyText
		case strings.HasPrefix(base, "multipart/"):
			return 0, ""
		}
		return 2, BodyBytes
	}
	best := 0
	for _, m := range content.all() {
		if r, k := rank(m.name); r > best {
			best, media, kind = r, m.name, k
		}
	}
	return media, kind
}

// contentType returns the Content-Type of a body: the media type of the document unless that is a range.
func contentType(media, kind string) string {
	switch {
	case kind == BodyMultipart:
		return "multipart/form-data"
	case !strings.Contains(media, "*"):
		return media
	case kind == BodyJSON:
		return "application/json"
	case kind == BodyText:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// flatBody collects the properties of a plain object and of its allOf.
type flatBody struct {
	doc        *document
	names      []string // in document order
	properties map[string][]*value
	required   map[string]bool
	seen       int // schemas visited
}

// maxVisited bounds the schemas that are visited to classify one of them: nested allOf multiply.
const maxVisited = 200

// addSchema adds the properties of a schema, and reports whether it is a plain object.
func (f *flatBody) addSchema(v *value) bool {
	if f.seen++; !v.is('{') || f.seen > maxVisited {
		return false
	}
	if ref := v.get("$ref"); ref.is('"') {
		target, err := f.doc.lookupRef(ref.text)
		if err != nil || !f.addSchema(target) {
			return false
		}
		if v = f.doc.besideRef(v); v == nil {
			return true
		}
	}
	if !isPlainObject(v) {
		return false
	}
	for i := range v.get("allOf").all() {
		if !f.addSchema(&v.get("allOf").members[i].value) {
			return false
		}
	}
	properties := v.get("properties")
	for i := range properties.all() {
		m := &properties.members[i]
		present := f.properties[m.name]
		if present == nil {
			f.names = append(f.names, m.name)
		}
		if !slices.ContainsFunc(present, m.value.equal) {
			f.properties[m.name] = append(present, &m.value)
		}
	}
	for _, name := range v.get("required").strings() {
		f.required[name] = true
	}
	return true
}

// isPlainObject reports whether a schema says nothing about its values except which members they have.
func isPlainObject(v *value) bool {
	for i := range v.members {
		m := &v.members[i]
		switch m.name {
		case "oneOf", "anyOf", "not", "if", "enum", "const", "patternProperties", "propertyNames", "unevaluatedProperties", "dependentSchemas", "$dynamicRef":
			return false
		case "type":
			if m.value.str() != "object" {
				return false
			}
		case "additionalProperties":
			if m.value.kind != 'f' {
				return false
			}
		}
	}
	return true
}

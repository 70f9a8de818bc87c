package httptool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// body is what an operation's request body is made of. Nil: it has none.
func (b *builder) body(o *operation) (*bodyArguments, error) {
	v, err := b.doc.follow(o.object.get("requestBody"))
	if err != nil {
		return nil, fmt.Errorf("requestBody: %w", err)
	}
	content := v.get("content")
	if len(content.all()) == 0 {
		return nil, nil
	}
	required := v.get("required").isTrue()
	if o.method == "GET" || o.method == "HEAD" { // content in one has no meaning (RFC 9110, section 9.3.1)
		if required {
			return nil, fmt.Errorf("requestBody: a %s has none", o.method)
		}
		return nil, nil
	}
	b.doc.spend(len(content.all()))
	media, kind := bodyMedia(content)
	if kind == "" {
		return nil, errors.New("requestBody: none of its media types is one")
	}
	made := &bodyArguments{body: Body{Kind: kind, Media: sent(media, kind), Required: required}}
	mediaObject := content.get(media)
	switch kind {
	case BodyText, BodyBytes:
		schema := object(member{"type", text("string")})
		if kind == BodyBytes {
			schema.set("contentEncoding", text("base64"))
		}
		made.whole = &argument{name: "body", in: InBody, required: required, schema: annotate(schema, v.get("description").str(), false)}
		return made, nil
	}
	if err := b.structured(made, mediaObject, v.get("description").str()); err != nil {
		return nil, fmt.Errorf("requestBody: %w", err)
	}
	return made, nil
}

// structured reads a body that has members: each is an argument, where all are known.
func (b *builder) structured(made *bodyArguments, media *value, description string) error {
	schema := media.get("schema")
	flat := &flatBody{doc: b.doc, required: map[string]bool{}}
	if flat.add(schema) {
		flat.hide(b.in.hidden(schema, nil))
	} else {
		flat.names = nil
	}
	if len(flat.names) > 0 {
		return b.fields(made, flat, media.get("encoding"))
	}
	if made.body.Kind != BodyJSON && b.root(schema) != rootObject {
		return fmt.Errorf("of %s only objects are written", made.body.Media)
	}
	converted, err := b.in.convert(schema)
	if err != nil {
		return err
	}
	if converted.get("description") == nil {
		converted = annotate(converted, description, false)
	}
	made.whole = &argument{name: "body", in: InBody, required: made.body.Required, schema: converted}
	return nil
}

// fields makes an argument of each property. A body that requires one is required.
func (b *builder) fields(made *bodyArguments, flat *flatBody, encoding *value) error {
	for _, name := range flat.names {
		a := argument{name: name, in: InBody, required: flat.required[name], field: Field{Name: name}}
		made.body.Required = made.body.Required || a.required
		said := flat.properties[name][0]
		if len(flat.properties[name]) > 1 {
			all := object(member{"allOf", value{kind: '['}})
			for _, part := range flat.properties[name] {
				all.members[0].value.members = append(all.members[0].value.members, member{value: *part})
			}
			said = &all
		}
		var err error
		if a.schema, err = b.in.convert(said); err != nil {
			return fmt.Errorf("%s: %w", plain.Quoted(name, 100), err)
		}
		if made.body.Kind != BodyJSON {
			b.encode(&a, made.body.Kind, flat.properties[name][0], b.doc.child(encoding, name))
		}
		made.fields = append(made.fields, a)
	}
	return nil
}

// bodyMedia chooses of a body's media types the one that says most, and how it is written.
func bodyMedia(content *value) (media, kind string) {
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

// sent is the Content-Type of a body: that of the document, where it is one and no range of some.
func sent(media, kind string) string {
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

// flatBody gathers the properties of a plain object, allOf followed.
type flatBody struct {
	doc        *document
	names      []string // in order
	properties map[string][]*value
	required   map[string]bool
	seen       int // schemas
}

// maxLooked bounds how many schemas are looked at to find out what one of them is: in allOf in allOf, ten each, are very many.
const maxLooked = 200

// add takes a schema's properties. False: it is more than a plain object.
func (f *flatBody) add(v *value) bool {
	if f.seen++; !v.is('{') || f.seen > maxLooked {
		return false
	}
	if ref := v.get("$ref"); ref.is('"') {
		target, err := f.doc.lookup(ref.text)
		if err != nil || !f.add(target) {
			return false
		}
		if v = f.doc.beside(v); v == nil {
			return true
		}
	}
	if !plainObject(v) {
		return false
	}
	for i := range v.get("allOf").all() {
		if !f.add(&v.get("allOf").members[i].value) {
			return false
		}
	}
	f.take(v)
	return true
}

// plainObject reports whether a schema says no more of its values than which members they have.
func plainObject(v *value) bool {
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

func (f *flatBody) take(v *value) {
	if f.properties == nil {
		f.properties = map[string][]*value{}
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
}

// hide takes away what is not sent.
func (f *flatBody) hide(gone hiddenNames) {
	f.names = slices.DeleteFunc(f.names, func(name string) bool { return gone[name] })
}

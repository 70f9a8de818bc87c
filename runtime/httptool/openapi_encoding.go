package httptool

import (
	"slices"
	"strings"
)

// encode reads how a pair of a form, or a part, is written (OpenAPI 3.1.1, section 4.8.15).
func (b *builder) encode(a *argument, kind string, schema, encoding *value) {
	if kind == BodyForm {
		encodePair(&a.field, encoding)
		return
	}
	if media := encoding.get("contentType").str(); mediaType(media) != "" && !strings.ContainsAny(media, "*,") {
		a.field.Media = media
	}
	resolved, _ := b.doc.follow(schema)
	description, element := resolved.get("description").str(), resolved
	if items := resolved.get("items"); items != nil {
		element, _ = b.doc.follow(items) // each is a part
	}
	file := object(member{"type", text("string")}, member{"contentEncoding", text("base64")})
	switch {
	case b.isFile(element, a.field.Media) && element == resolved:
		a.field.File, a.schema = true, annotate(file, description, false)
	case b.isFile(element, a.field.Media):
		a.field.File = true
		a.schema = annotate(object(member{"type", text("array")}, member{"items", file}), description, false)
	case b.isEncoded(element):
		setDefault(&a.field.Media, "application/octet-stream")
	}
}

// encodePair: one of style, explode and allowReserved is enough for a value to be written as a parameter of a query is. Without any, its media type
// counts, which of objects is JSON.
func encodePair(f *Field, encoding *value) {
	style, explode := encoding.get("style"), encoding.get("explode")
	if style == nil && explode == nil && encoding.get("allowReserved") == nil {
		return
	}
	f.Style, f.Explode = StyleForm, true
	if given := style.str(); slices.Contains([]string{StyleForm, StyleSpaceDelimited, StylePipeDelimited, StyleDeepObject}, given) {
		f.Style, f.Explode = given, given == StyleForm
	}
	if explode.is('t') || explode.is('f') {
		f.Explode = explode.isTrue()
	}
}

// isFile reports whether a part is a file: bytes as they are, of which the schema says no more. Those are strings of format binary (3.0, and still
// written in 3.1), and since 3.1 what has no type, or is a string of a media type that is no text (OpenAPI 3.1.1, section 4.8.15.1.1, and Working
// With Binary Data). media is what the document says that the part is, if it does.
func (b *builder) isFile(v *value, media string) bool {
	content := v.get("contentMediaType").str()
	switch {
	case !v.is('{') || b.isEncoded(v):
		return false
	case isString(v):
		return v.get("format").str() == "binary" || content != "" && !isTextual(content)
	case media != "" && isTextual(media):
		return false
	}
	return content != "" && v.get("type") == nil || b.doc.is("3.1") && saysNothing(v)
}

// isEncoded reports whether a part is a string that has bytes in text: since 3.1 contentEncoding says in which.
func (b *builder) isEncoded(v *value) bool {
	return b.doc.is("3.1") && isString(v) && v.get("contentEncoding").is('"')
}

// isString reports whether a schema is of strings, or of these and null.
func isString(v *value) bool {
	kinds := append(v.get("type").strings(), v.get("type").str())
	return slices.Contains(kinds, "string") && !slices.ContainsFunc(kinds, func(kind string) bool { return kind != "string" && kind != "null" && kind != "" })
}

// saysNothing reports whether any value fits a schema.
func saysNothing(v *value) bool {
	return !slices.ContainsFunc(v.members, func(m member) bool {
		return !slices.Contains([]string{"title", "description", "deprecated", "readOnly", "writeOnly", "example", "examples", "externalDocs", "contentMediaType", "$comment"}, m.name) &&
			!strings.HasPrefix(m.name, "x-")
	})
}

// isTextual reports whether a media type is of text.
func isTextual(media string) bool {
	base := mediaType(media)
	return strings.HasPrefix(base, "text/") || isJSON(media) || base == "application/xml" || strings.HasSuffix(base, "+xml") || base == "application/yaml"
}

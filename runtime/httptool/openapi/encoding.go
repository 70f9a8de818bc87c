package openapi

import (
	"cmp"
	"slices"
	"strings"
)

// readEncoding reads the encoding of a form field or a part (OpenAPI 3.1.1, section 4.8.15).
func (b *builder) readEncoding(a *argument, kind string, schema, encoding *value) {
	if kind == BodyForm {
		readFormStyle(&a.field, encoding)
		return
	}
	if media := encoding.get("contentType").str(); mediaType(media) != "" && !strings.ContainsAny(media, "*,") {
		a.field.Media = media
	}
	resolved, _ := b.doc.followRef(schema)
	description, element := resolved.get("description").str(), resolved
	if items := resolved.get("items"); items != nil {
		element, _ = b.doc.followRef(items) // each element is a part
	}
	file := object(member{"type", text("string")}, member{"contentEncoding", text("base64")})
	switch {
	case b.isFile(element, a.field.Media) && element == resolved:
		a.field.File, a.schema = true, addAnnotations(file, description, false)
	case b.isFile(element, a.field.Media):
		a.field.File = true
		a.schema = addAnnotations(object(member{"type", text("array")}, member{"items", file}), description, false)
	case b.isEncoded(element):
		a.field.Media = cmp.Or(a.field.Media, "application/octet-stream")
	}
}

// readFormStyle reads the style of a form field. With any of style, explode and allowReserved the field is encoded like a query parameter.
// Without them its media type counts, which is JSON for objects.
func readFormStyle(f *Field, encoding *value) {
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

// isFile reports whether a part is a file: raw bytes. These are strings of format binary (3.0, and still in use in 3.1). Since 3.1 they
// are also schemas without a type, and strings of a media type that is not text (OpenAPI 3.1.1, section 4.8.15.1.1, and Working With
// Binary Data). media is the content type of the part in the document, if any.
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
	return content != "" && v.get("type") == nil || b.doc.hasVersion("3.1") && acceptsAnything(v)
}

// isEncoded reports whether a part is a string with encoded bytes (contentEncoding, since 3.1).
func (b *builder) isEncoded(v *value) bool {
	return b.doc.hasVersion("3.1") && isString(v) && v.get("contentEncoding").is('"')
}

// isString reports whether a schema accepts strings, or strings and null.
func isString(v *value) bool {
	kinds := append(v.get("type").strings(), v.get("type").str())
	return slices.Contains(kinds, "string") && !slices.ContainsFunc(kinds, func(kind string) bool { return kind != "string" && kind != "null" && kind != "" })
}

// acceptsAnything reports whether a schema accepts any value.
func acceptsAnything(v *value) bool {
	return !slices.ContainsFunc(v.members, func(m member) bool {
		return !slices.Contains([]string{"title", "description", "deprecated", "readOnly", "writeOnly", "example", "examples", "externalDocs", "contentMediaType", "$comment"}, m.name) &&
			!strings.HasPrefix(m.name, "x-")
	})
}

// isTextual reports whether a media type is a kind of text.
func isTextual(media string) bool {
	base := mediaType(media)
	return strings.HasPrefix(base, "text/") || IsJSON(media) || base == "application/xml" || strings.HasSuffix(base, "+xml") || base == "application/yaml"
}

package openapi

import (
	"errors"
	"fmt"
	"mime"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// listPlaceholders returns the names of the parameters in a path template.
func listPlaceholders(path string) []string {
	var list []string
	for _, found := range placeholder.FindAllStringSubmatch(path, -1) {
		list = append(list, found[1])
	}
	return list
}

// readParameters returns the arguments outside the body: the parameters of an operation and of its path.
func (b *builder) readParameters(o *operation) ([]argument, error) {
	if err := checkPath(o.path); err != nil {
		return nil, err
	}
	var list []argument
	for _, object := range []*value{o.item, o.object} { // the operation overrides the path
		if len(object.get("parameters").all()) > maxParameters {
			return nil, fmt.Errorf("it has more than %d parameters", maxParameters)
		}
		if err := b.checkDistinct(object.get("parameters")); err != nil {
			return nil, err
		}
		for i := range object.get("parameters").all() {
			a, err := b.readParameter(o, &object.get("parameters").members[i].value)
			if err != nil {
				return nil, err
			}
			if a == nil {
				continue
			}
			at := slices.IndexFunc(list, func(other argument) bool { return other.name == a.name && other.in == a.in })
			if at >= 0 {
				list[at] = *a
			} else {
				list = append(list, *a)
			}
		}
	}
	for _, name := range listPlaceholders(o.path) {
		if !slices.ContainsFunc(list, func(a argument) bool { return a.in == InPath && a.name == name }) {
			return nil, fmt.Errorf("path parameter %s is not declared", plain.Quoted(name, 100))
		}
	}
	return list, nil
}

// checkDistinct refuses duplicate parameters before any is converted: thousands of references may lead to one.
func (b *builder) checkDistinct(parameters *value) error {
	seen := map[string]bool{}
	for i := range parameters.all() {
		v, err := b.doc.followRef(&parameters.members[i].value)
		if err != nil {
			continue // readParameter reports it
		}
		key := v.get("in").str() + " " + v.get("name").str()
		if seen[key] {
			return fmt.Errorf("it has the parameter %s twice", plain.Quoted(key, 100))
		}
		seen[key] = true
	}
	return nil
}

// Limits of one operation.
const (
	maxPath       = 2048 // bytes
	maxParameters = 500  // outside the body
)

// checkPath refuses invalid path templates.
func checkPath(path string) error {
	switch {
	case len(path) > maxPath:
		return fmt.Errorf("its path is longer than %d bytes", maxPath)
	case !strings.HasPrefix(path, "/"):
		return errors.New("its path does not begin with /")
	case strings.Contains(path, "?"):
		return errors.New("its path has a query")
	case strings.ContainsAny(placeholder.ReplaceAllString(path, ""), "{}"):
		return errors.New("its path has braces that are no parameter")
	}
	names := listPlaceholders(path)
	if slices.Sort(names); len(slices.Compact(names)) < len(listPlaceholders(path)) {
		return errors.New("its path has a parameter twice")
	}
	return nil
}

// readParameter reads a parameter. Nil: it is not an argument.
func (b *builder) readParameter(o *operation, v *value) (*argument, error) {
	v, err := b.doc.followRef(v)
	if err != nil {
		return nil, fmt.Errorf("a parameter: %w", err)
	}
	a := &argument{name: v.get("name").str(), in: v.get("in").str()}
	a.required = v.get("required").isTrue() || a.in == InPath
	switch {
	case !v.is('{') || a.name == "":
		return nil, errors.New("a parameter has no name")
	case !slices.Contains(places(), a.in):
		return nil, fmt.Errorf("parameter %s: in: must be path, query, header or cookie, not %s", plain.Quoted(a.name, 100), plain.Quoted(a.in, 20))
	case a.in == InPath && !slices.Contains(listPlaceholders(o.path), a.name):
		return nil, nil
	case b.isSetElsewhere(a):
		return nil, nil
	}
	if err := checkReserved(a); err != nil {
		if a.required {
			return nil, err
		}
		return nil, nil // optional: left out
	}
	if err := b.readFormat(a, v); err != nil {
		return nil, fmt.Errorf("parameter %s: %w", plain.Quoted(a.name, 100), err)
	}
	return a, nil
}

// isSetElsewhere reports whether a parameter is not an argument: OpenAPI describes it elsewhere, or the operator sets it.
func (b *builder) isSetElsewhere(a *argument) bool {
	name := textproto.CanonicalMIMEHeaderKey(a.name)
	if a.in == InHeader {
		if slices.Contains([]string{"Accept", "Content-Type", "Authorization"}, name) { // OpenAPI 3.1, section 4.8.12
			return true
		}
		for set := range b.server.Headers {
			if textproto.CanonicalMIMEHeaderKey(set) == name {
				return true
			}
		}
	}
	auth := b.server.API.Auth
	if auth == nil || auth.Type != tool.APIKey || auth.In != a.in {
		return false
	}
	return auth.Name == a.name || a.in == InHeader && textproto.CanonicalMIMEHeaderKey(auth.Name) == name
}

// checkReserved refuses parameters that only Holdpoint may send.
func checkReserved(a *argument) error {
	switch {
	case a.in == InHeader && !httpguts.ValidHeaderFieldName(a.name):
		return fmt.Errorf("parameter %s: is no name of a header", plain.Quoted(a.name, 100))
	case a.in == InHeader && setting.IsReservedHeader(a.name):
		return fmt.Errorf("parameter %s: is a header that Holdpoint sets itself", plain.Quoted(a.name, 100))
	case a.in == InCookie && !httpguts.ValidHeaderFieldName(a.name): // a token, like the name of a header (RFC 6265, section 4.1.1)
		return fmt.Errorf("parameter %s: is no name of a cookie", plain.Quoted(a.name, 100))
	}
	return nil
}

// readFormat reads the encoding and the schema of a parameter.
func (b *builder) readFormat(a *argument, v *value) error {
	a.param = Param{Name: a.name, In: a.in, Style: StyleSimple}
	if a.in == InQuery || a.in == InCookie {
		a.param.Style = StyleForm
	}
	schema := v.get("schema")
	if content := v.get("content"); content.is('{') {
		if len(content.members) != 1 {
			return errors.New("content: must be one media type")
		}
		if !IsJSON(content.members[0].name) {
			return fmt.Errorf("content: must be JSON, not %s", plain.Quoted(content.members[0].name, 100))
		}
		a.param.JSON = true
		schema = content.members[0].value.get("schema")
	} else if err := readStyle(&a.param, v); err != nil {
		return err
	}
	if schema == nil && !a.param.JSON {
		stringSchema := object(member{"type", text("string")})
		schema = &stringSchema
	}
	converted, err := b.in.convertSchema(schema)
	if err != nil {
		return err
	}
	a.schema = addAnnotations(converted, v.get("description").str(), v.get("deprecated").isTrue())
	return nil
}

// readStyle reads the style of a parameter (OpenAPI 3.1, section 4.8.12.2.2).
func readStyle(p *Param, v *value) error {
	if given := v.get("style").str(); given != "" {
		p.Style = given
	}
	allowed := map[string][]string{
		InPath: {StyleSimple, StyleLabel, StyleMatrix}, InHeader: {StyleSimple}, InCookie: {StyleForm},
		InQuery: {StyleForm, StyleSpaceDelimited, StylePipeDelimited, StyleDeepObject},
	}
	if !slices.Contains(allowed[p.In], p.Style) {
		return fmt.Errorf("style: %s is none of parameters in %s", plain.Quoted(p.Style, 20), p.In)
	}
	p.Explode = p.Style == StyleForm
	if explode := v.get("explode"); explode.is('t') || explode.is('f') {
		p.Explode = explode.isTrue()
	}
	p.AllowReserved = p.In == InQuery && v.get("allowReserved").isTrue()
	return nil
}

// addAnnotations adds the description of an argument, and that it is deprecated, to its schema.
func addAnnotations(schema value, description string, deprecated bool) value {
	if description == "" && !deprecated || schema.kind == 'f' {
		return schema
	}
	if schema.kind == 't' {
		schema = object()
	}
	if description != "" {
		schema.set("description", text(description))
	}
	if deprecated {
		schema.set("deprecated", boolean(true))
	}
	return schema
}

// mediaType returns a media type without its parameters in lower case, "" if it is invalid.
func mediaType(media string) string {
	base, _, err := mime.ParseMediaType(media)
	if err != nil || !httpguts.ValidHeaderFieldValue(media) {
		return ""
	}
	return base
}

// IsJSON reports whether a media type is JSON.
func IsJSON(media string) bool {
	base := mediaType(media)
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// DefineEndpoints makes definitions of the endpoints that an operator wrote by hand. They were validated when they were saved (see
// [setting.Validate]), so usually none is skipped.
func DefineEndpoints(api *tool.API) *Definitions {
	made := &Definitions{Operations: len(api.Endpoints)}
	for i := range api.Endpoints {
		e := &api.Endpoints[i]
		definition, err := defineEndpoint(e, api)
		if err != nil {
			made.Skipped = append(made.Skipped, tool.Skipped{Name: e.Name, Reason: Reason(err)})
			continue
		}
		made.Tools = append(made.Tools, definition)
	}
	return made
}

func defineEndpoint(e *tool.Endpoint, api *tool.API) (tool.Definition, error) {
	binding, schema, err := bindEndpoint(e)
	if err != nil {
		return tool.Definition{}, err
	}
	binding.Select = api.Select[e.Name]
	if api.Preview {
		binding.Preview = endpointPreview(api.Endpoints, e, binding)
	}
	described := description{
		Name: e.Name, Title: e.Title, Description: e.Description, Binding: binding, InputSchema: schema,
	}
	if len(e.InputSchema) > 0 {
		described.InputSchema = e.InputSchema
	}
	if binding.Select == "" && !api.NoOutputSchemas && len(e.OutputSchema) > 0 {
		if described.OutputSchema, err = endpointOutput(e.OutputSchema); err != nil {
			return tool.Definition{}, err
		}
	}
	return described.compileDefinition()
}

// bindEndpoint returns the binding of an endpoint and its input schema.
func bindEndpoint(e *tool.Endpoint) (*Binding, []byte, error) {
	binding := &Binding{Method: setting.MethodOf(e), Path: e.Path}
	parameters := setting.ParametersOf(e)
	var params []argument
	body := &bodyArguments{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		a, err := endpointArgument(name, parameters[name])
		if err != nil {
			return nil, nil, fmt.Errorf("parameters.%s: %w", name, err)
		}
		if a.in == InBody {
			body.fields = append(body.fields, a)
		} else {
			params = append(params, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		if textproto.CanonicalMIMEHeaderKey(name) == "Accept" {
			binding.Accept = e.Headers[name]
		} else if textproto.CanonicalMIMEHeaderKey(name) != "Content-Type" {
			binding.Fixed = append(binding.Fixed, FixedHeader{name, e.Headers[name]})
		}
	}
	if len(body.fields) > 0 {
		body.body = endpointBody(e, body.fields)
	} else {
		body = nil
	}
	return binding, append(nameArguments(binding, params, body), '}'), nil
}

// endpointBody describes the body of an endpoint.
func endpointBody(e *tool.Endpoint, fields []argument) Body {
	made := Body{Kind: BodyJSON, Media: "application/json", Required: true}
	switch e.Body {
	case BodyForm:
		made = Body{Kind: BodyForm, Media: "application/x-www-form-urlencoded"}
		for i := range fields {
			fields[i].field.Style, fields[i].field.Explode = StyleForm, true
		}
	case BodyMultipart:
		made = Body{Kind: BodyMultipart, Media: "multipart/form-data"}
		for i := range fields {
			fields[i].field.File = fields[i].schema.get("contentEncoding").str() == "base64" ||
				fields[i].schema.get("items").get("contentEncoding").str() == "base64"
		}
	}
	for name, media := range e.Headers {
		if textproto.CanonicalMIMEHeaderKey(name) == "Content-Type" && made.Kind == BodyJSON {
			made.Media = media
		}
	}
	return made
}

// endpointArgument converts a parameter to an argument.
func endpointArgument(name string, p tool.Parameter) (argument, error) {
	a := argument{name: name, in: p.In, required: *p.Required, param: Param{Name: p.Name, In: p.In, Style: StyleSimple}, field: Field{Name: p.Name}}
	if p.In == InQuery || p.In == InCookie {
		a.param.Style, a.param.Explode = StyleForm, true
	}
	a.schema = object(member{"type", text(p.Type)})
	if len(p.Schema) > 0 {
		schema, err := readJSON(p.Schema)
		if err != nil {
			return a, fmt.Errorf("schema: %w", err)
		}
		if !schema.is('{') {
			return a, errors.New("schema: must be an object")
		}
		a.schema = *schema
	} else if p.Type == "array" {
		a.schema.set("items", object())
	}
	if p.Description != "" && a.schema.get("description") == nil {
		a.schema.set("description", text(p.Description))
	}
	return a, nil
}

// endpointOutput wraps the schema of answers that are not objects, like the answers themselves.
func endpointOutput(schema json.RawMessage) (json.RawMessage, error) {
	v, err := readJSON(schema)
	if err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	if v.get("type").str() == "object" {
		return schema, nil
	}
	if v.get("type") == nil {
		return nil, errors.New("output_schema: type: must be object, array, string, number, integer or boolean")
	}
	wrapped := object(member{"type", text("object")}, member{"properties", object(member{"result", *v})}, member{"required", texts([]string{"result"})})
	return wrapped.appendTo(nil), nil
}

// endpointPreview returns the binding of the GET endpoint at the same path. Nil: there is none.
func endpointPreview(endpoints []tool.Endpoint, e *tool.Endpoint, call *Binding) *Binding {
	if !slices.Contains([]string{"PUT", "PATCH", "DELETE"}, call.Method) {
		return nil
	}
	at := slices.IndexFunc(endpoints, func(other tool.Endpoint) bool {
		return setting.MethodOf(&other) == "GET" && strings.TrimRight(other.Path, "/") == strings.TrimRight(e.Path, "/")
	})
	if at < 0 {
		return nil
	}
	get, _, err := bindEndpoint(&endpoints[at])
	if err != nil {
		return nil
	}
	parameters := setting.ParametersOf(&endpoints[at])
	var params []argument
	for _, p := range get.Params {
		params = append(params, argument{required: *parameters[p.Arg].Required, param: p})
	}
	get.Params = nil
	return bindPreview(get, params, call)
}

package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	yes := true
	api := tool.API{Preview: true, Endpoints: []tool.Endpoint{
		{
			Name: "get_weather", Description: "Tells the weather of a city.", Path: "/weather/{city}", Headers: map[string]string{"Accept": "application/json", "X-Api": "2"},
			Parameters:   map[string]tool.Parameter{"units": {Description: "metric or imperial", Schema: json.RawMessage(`{"enum":["metric","imperial"]}`)}},
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"celsius":{"type":"number"}}}`),
		},
		{
			Name: "make_customer", Title: "New customer", Method: "POST", Path: "/customers",
			Parameters: map[string]tool.Parameter{"name": {Required: &yes}, "age": {Type: "integer"}, "trace": {In: "header", Name: "X-Trace"}, "session": {In: "cookie"}},
		},
		{Name: "get_customer", Path: "/customers/{id}", OutputSchema: json.RawMessage(`{"type":"array"}`)},
		{Name: "set_customer", Method: "PUT", Path: "/customers/{id}", Body: "form", Parameters: map[string]tool.Parameter{"customer": {In: "path", Name: "id"}, "tags": {Type: "array"}}},
		{
			Name: "add_picture", Method: "POST", Path: "/pictures", Body: "multipart", InputSchema: json.RawMessage(`{"type":"object","properties":{"file":{"type":"string"}}}`),
			Parameters: map[string]tool.Parameter{"file": {Schema: json.RawMessage(`{"type":"string","contentEncoding":"base64"}`)}},
		},
	}}
	if problems := setting.Validate(&api, tool.HTTPAPI); len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	made := openapi.DefineEndpoints(&api)
	if len(made.Tools) != len(api.Endpoints) {
		t.Fatalf("%+v", made)
	}
	for i, want := range []struct {
		input, output, annotations string
		binding                    openapi.Binding
	}{
		{
			input:       `{"type":"object","properties":{"city":{"type":"string"},"units":{"enum":["metric","imperial"],"description":"metric or imperial"}},"required":["city"],"additionalProperties":false}`,
			output:      `{"type":"object","properties":{"celsius":{"type":"number"}}}`,
			annotations: `{"readOnlyHint":true,"openWorldHint":true}`,
			binding: openapi.Binding{
				Method: "GET", Path: "/weather/{city}", Accept: "application/json", Fixed: []openapi.FixedHeader{{Name: "X-Api", Value: "2"}}, Params: []openapi.Param{
					{Arg: "city", Name: "city", In: "path", Style: "simple"}, {Arg: "units", Name: "units", In: "query", Style: "form", Explode: true},
				},
			},
		},
		{
			input: `{"type":"object","properties":{"trace":{"type":"string"},"session":{"type":"string"},"age":{"type":"integer"},"name":{"type":"string"}},` +
				`"required":["name"],"additionalProperties":false}`,
			annotations: `{"title":"New customer","readOnlyHint":false,"openWorldHint":true}`,
			binding: openapi.Binding{
				Method: "POST", Path: "/customers", Params: []openapi.Param{
					{Arg: "trace", Name: "X-Trace", In: "header", Style: "simple"}, {Arg: "session", Name: "session", In: "cookie", Style: "form", Explode: true},
				},
				Body: &openapi.Body{Kind: "json", Media: "application/json", Required: true, Fields: []openapi.Field{{Arg: "age", Name: "age"}, {Arg: "name", Name: "name"}}},
			},
		},
		{
			input:       `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`,
			output:      `{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`,
			annotations: `{"readOnlyHint":true,"openWorldHint":true}`,
			binding:     openapi.Binding{Method: "GET", Path: "/customers/{id}", Params: []openapi.Param{{Arg: "id", Name: "id", In: "path", Style: "simple"}}},
		},
		{
			input:       `{"type":"object","properties":{"customer":{"type":"string"},"tags":{"type":"array","items":{}}},"required":["customer"],"additionalProperties":false}`,
			annotations: `{"readOnlyHint":false,"idempotentHint":true,"openWorldHint":true}`,
			binding: openapi.Binding{
				Method: "PUT", Path: "/customers/{id}", Params: []openapi.Param{{Arg: "customer", Name: "id", In: "path", Style: "simple"}},
				Body:    &openapi.Body{Kind: "form", Media: "application/x-www-form-urlencoded", Fields: []openapi.Field{{Arg: "tags", Name: "tags", Style: "form", Explode: true}}},
				Preview: &openapi.Binding{Method: "GET", Path: "/customers/{id}", Params: []openapi.Param{{Arg: "customer", Name: "id", In: "path", Style: "simple"}}},
			},
		},
		{
			input:       `{"type":"object","properties":{"file":{"type":"string"}}}`,
			annotations: `{"readOnlyHint":false,"openWorldHint":true}`,
			binding: openapi.Binding{
				Method: "POST", Path: "/pictures",
				Body: &openapi.Body{Kind: "multipart", Media: "multipart/form-data", Fields: []openapi.Field{{Arg: "file", Name: "file", File: true}}},
			},
		},
	} {
		d := made.Tools[i]
		for _, pair := range [][3]string{{"input", want.input, string(d.InputSchema)}, {"output", want.output, string(d.OutputSchema)}, {"annotations", want.annotations, string(d.Annotations)}} {
			if diff := cmp.Diff(pair[1], pair[2]); diff != "" {
				t.Errorf("%s: %s: %s", d.Name, pair[0], diff)
			}
		}
		if diff := cmp.Diff(want.binding, readBinding(t, d)); diff != "" {
			t.Errorf("%s: %s", d.Name, diff)
		}
	}
}

package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestList(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, pets)
	server.API.Preview = true
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 2 || len(listing.Skipped) != 0 {
		t.Fatalf("%+v, %v", listing, err)
	}
	get, update := listing.Tools[0], listing.Tools[1]
	same := func(name, got, want string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	same("name", get.Name, "pets_get")
	same("title", get.Title, "One pet")
	same("description", get.Description, "One pet\n\nTells of one pet.")
	same("annotations", string(get.Annotations), `{"title":"One pet","readOnlyHint":true,"openWorldHint":true}`)
	same("input", string(get.InputSchema), `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`)
	const pet = `"properties":{"id":{"type":"integer"},"name":{"type":"string"},"born":{"type":["string","null"]},"mother":{"$ref":"#/$defs/Pet"}}`
	same("output", string(get.OutputSchema),
		`{"type":"object","required":["id","name"],`+pet+`,"$defs":{"Pet":{"type":"object","required":["id","name"],`+pet+`}}}`)
	if diff := cmp.Diff(openapi.Binding{
		Method: "GET", Path: "/pets/{id}", Accept: "application/json", Params: []openapi.Param{{Arg: "id", Name: "id", In: "path", Style: "simple"}},
	}, readBinding(t, get)); diff != "" {
		t.Error(diff)
	}
	same("annotations", string(update.Annotations), `{"readOnlyHint":false,"idempotentHint":true,"openWorldHint":true}`)
	const asked = `"name":{"type":"string"},"born":{"type":["string","null"],"format":"date"},"mother":{"$ref":"#/$defs/Pet"}}`
	same("input", string(update.InputSchema), `{"type":"object","properties":{"id":{"type":"integer"},"dry_run":{"type":"boolean"},`+asked+
		`,"required":["id","name"],"additionalProperties":false,"$defs":{"Pet":{"type":"object","required":["name"],"properties":{`+asked+`}}}`)
	same("no output", string(update.OutputSchema), "")
	if diff := cmp.Diff(openapi.Binding{
		Method: "PUT", Path: "/pets/{id}",
		Params: []openapi.Param{{Arg: "id", Name: "id", In: "path", Style: "simple"}, {Arg: "dry_run", Name: "dry_run", In: "query", Style: "form", Explode: true}},
		Body: &openapi.Body{Kind: "json", Media: "application/json", Required: true, Fields: []openapi.Field{
			{Arg: "name", Name: "name"}, {Arg: "born", Name: "born"}, {Arg: "mother", Name: "mother"},
		}},
		Preview: &openapi.Binding{
			Method: "GET", Path: "/pets/{id}", Accept: "application/json", Params: []openapi.Param{{Arg: "id", Name: "id", In: "path", Style: "simple"}},
		},
	}, readBinding(t, update)); diff != "" {
		t.Error(diff)
	}
}

func TestListFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		document, want string
		change         func(*tool.Server)
	}{
		"swagger":        {document: `{"swagger": "2.0"}`, want: "openapi: must be 3.0.x or 3.1.x, not swagger 2.0"},
		"swagger, YAML":  {document: "swagger: '2.0'\n", want: "openapi: must be 3.0.x or 3.1.x, not swagger 2.0"},
		"3.2":            {document: `{"openapi": "3.2.0"}`, want: "openapi: must be 3.0.x or 3.1.x, not 3.2.0"},
		"no version":     {document: `{}`, want: "openapi: must be 3.0.x or 3.1.x; it names no version"},
		"not JSON":       {document: `{"openapi": `, want: "the document cannot be read as JSON"},
		"duplicate keys": {document: `{"openapi": "3.0.3", "openapi": "3.1.0"}`, want: "duplicate"},
		"duplicate YAML": {document: "openapi: 3.0.3\nopenapi: 3.1.0\n", want: `key "openapi" is there twice`},
		"no server": {
			document: `{"openapi": "3.0.3", "paths": {}}`, change: func(s *tool.Server) { s.URL = "" },
			want: "server /: must be an absolute URL: set base_url",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, tc.document)
			if tc.change != nil {
				tc.change(&server)
			}
			_, err := source.List(t.Context(), server)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	const document = `{"openapi": "3.1.0", "paths": {
		"/a": {"get": {"operationId": "getA", "tags": ["x", "y"]}, "post": {"operationId": "makeA", "tags": ["y"]}},
		"/a/{id}/b": {"parameters": [{"name": "id", "in": "path"}], "get": {"operationId": "getB"}, "delete": {"tags": ["z"]}},
		"/c": {"get": {"operationId": "getA"}}}}`
	for name, tc := range map[string]struct {
		include, exclude []tool.OperationFilter
		want             []string
		missing          []string
	}{
		"all":           {want: []string{"getA", "makeA", "getB", "DELETE_a__id__b", "getA_2"}},
		"id":            {include: []tool.OperationFilter{{OperationID: "get*"}}, want: []string{"getA", "getB", "getA_2"}},
		"letters count": {include: []tool.OperationFilter{{OperationID: "GET*"}}, missing: []string{"include[0]"}},
		"method":        {include: []tool.OperationFilter{{Method: "dElete"}}, want: []string{"DELETE_a__id__b"}},
		"tag":           {include: []tool.OperationFilter{{Tag: "y"}}, want: []string{"getA", "makeA"}},
		"one segment":   {include: []tool.OperationFilter{{Path: "/*"}}, want: []string{"getA", "makeA", "getA_2"}},
		"all segments":  {include: []tool.OperationFilter{{Path: "/a/**"}}, want: []string{"getB", "DELETE_a__id__b"}},
		"both":          {include: []tool.OperationFilter{{Path: "/a", Method: "GET"}}, want: []string{"getA"}},
		"without":       {exclude: []tool.OperationFilter{{Method: "get"}}, want: []string{"makeA", "DELETE_a__id__b"}},
		"names stay":    {include: []tool.OperationFilter{{Path: "/c"}, {Tag: "none"}}, want: []string{"getA_2"}, missing: []string{"include[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, document)
			server.API.Include, server.API.Exclude = tc.include, tc.exclude
			listing, err := source.List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			var got, missing []string
			for _, d := range listing.Tools {
				got = append(got, d.Name)
			}
			for _, s := range listing.Skipped {
				missing = append(missing, s.Name)
			}
			if !slices.Equal(got, tc.want) || !slices.Equal(missing, tc.missing) {
				t.Errorf("got %q without %q, want %q without %q", got, missing, tc.want, tc.missing)
			}
		})
	}
}

package openapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// listOne lists the tool of a document with one operation.
func listOne(t *testing.T, operation string, change func(*tool.Server)) tool.Definition {
	t.Helper()
	source, server := openDocument(t, `{"openapi": "3.1.0", "paths": {"/it/{id}": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}], `+operation+`}}}`)
	if change != nil {
		change(&server)
	}
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	return listing.Tools[0]
}

func inputOf(t *testing.T, d tool.Definition) (names, required []string) {
	t.Helper()
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(schema.Properties)))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
	}
	return names, schema.Required
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	d := listOne(t, `"post": {
		"parameters": [{"name": "id", "in": "cookie"}, {"name": "id", "in": "header"}, {"name": "id", "in": "query", "required": true}, {"name": "filter[name]", "in": "query"},
			{"name": "filter{name}", "in": "query"}, {"name": "`+strings.Repeat("long", 20)+`", "in": "query"}, {"name": "`+strings.Repeat("long", 21)+`", "in": "query"}],
		"requestBody": {"content": {"application/json": {"schema": {"type": "object", "required": ["id"], "properties": {"id": {}, "id_body": {}}}}}}}`, nil)
	names, required := inputOf(t, d)
	long := strings.Repeat("long", 16)
	want := []string{"id", "id_query", "filter_name_", "filter_name__query", long, long[:58] + "_query", "id_header", "id_cookie", "id_body", "id_body_body"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(required, []string{"id", "id_query", "id_body"}) {
		t.Errorf("required: %q", required)
	}
	made := readBinding(t, d)
	if made.Params[2] != (openapi.Param{Arg: "filter_name_", Name: "filter[name]", In: "query", Style: "form", Explode: true}) || !made.Body.Required ||
		made.Body.Fields[1] != (openapi.Field{Arg: "id_body_body", Name: "id_body"}) {
		t.Errorf("%+v, %+v", made, made.Body)
	}
}

// Arguments exclude Holdpoint's headers and parameters that the operator sets or OpenAPI describes elsewhere.
func TestParametersLeftOut(t *testing.T) {
	t.Parallel()
	const operation = `"get": {"parameters": [{"name": "accept", "in": "header"}, {"name": "Authorization", "in": "header", "required": true}, {"name": "Content-Type", "in": "header"},
		{"name": "X-Team", "in": "header", "required": true}, {"name": "key", "in": "query", "required": true}, {"name": "Sec-Fetch-Site", "in": "header"}, {"name": "other", "in": "path"},
		{"name": "q", "in": "query"}]}`
	names, _ := inputOf(t, listOne(t, operation, func(s *tool.Server) {
		s.Headers = map[string]string{"x-team": "secret"}
		s.API.Auth = &tool.APIAuth{Type: tool.APIKey, In: "query", Name: "key"}
	}))
	if !slices.Equal(names, []string{"id", "q"}) {
		t.Errorf("got %q", names)
	}
}

func TestParameterStyles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		parameter string
		want      openapi.Param
	}{
		"query":         {`{"name": "a", "in": "query"}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "form", Explode: true}},
		"commas":        {`{"name": "a", "in": "query", "explode": false}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "form"}},
		"pipes":         {`{"name": "a", "in": "query", "style": "pipeDelimited"}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "pipeDelimited"}},
		"deep":          {`{"name": "a", "in": "query", "style": "deepObject", "explode": true}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "deepObject", Explode: true}},
		"as it is":      {`{"name": "a", "in": "query", "allowReserved": true}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "form", Explode: true, AllowReserved: true}},
		"JSON":          {`{"name": "a", "in": "query", "content": {"application/json": {"schema": {}}}}`, openapi.Param{Arg: "a", Name: "a", In: "query", Style: "form", JSON: true}},
		"header":        {`{"name": "a", "in": "header"}`, openapi.Param{Arg: "a", Name: "a", In: "header", Style: "simple"}},
		"cookie":        {`{"name": "a", "in": "cookie", "explode": false}`, openapi.Param{Arg: "a", Name: "a", In: "cookie", Style: "form"}},
		"path, instead": {`{"name": "id", "in": "path", "style": "label", "explode": true}`, openapi.Param{Arg: "id", Name: "id", In: "path", Style: "label", Explode: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := readBinding(t, listOne(t, `"get": {"parameters": [`+tc.parameter+`]}`, nil))
			if got := made.Params[len(made.Params)-1]; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	const plain = `{"type": "object", "properties": {"a": {"type": "string"}}}`
	for name, tc := range map[string]struct {
		content string
		want    *openapi.Body
		names   []string
	}{
		"JSON first": {
			`"text/plain": {}, "multipart/form-data": {}, "application/json": {"schema": ` + plain + `}`,
			&openapi.Body{Kind: "json", Media: "application/json", Fields: []openapi.Field{{Arg: "a", Name: "a"}}},
			[]string{"id", "a"},
		},
		"JSON of a kind": {
			`"application/vnd.api+json": {"schema": {"type": "array"}}`,
			&openapi.Body{Kind: "json", Media: "application/vnd.api+json", Arg: "body"},
			[]string{"id", "body"},
		},
		"either":    {`"application/json": {"schema": {"oneOf": [` + plain + `]}}`, &openapi.Body{Kind: "json", Media: "application/json", Arg: "body"}, []string{"id", "body"}},
		"free":      {`"application/json": {"schema": {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}}`, &openapi.Body{Kind: "json", Media: "application/json", Arg: "body"}, []string{"id", "body"}},
		"no schema": {`"application/json": {}`, &openapi.Body{Kind: "json", Media: "application/json", Arg: "body"}, []string{"id", "body"}},
		"any type":  {`"*/*": {"schema": ` + plain + `}`, &openapi.Body{Kind: "json", Media: "application/json", Fields: []openapi.Field{{Arg: "a", Name: "a"}}}, []string{"id", "a"}},
		"all of it": {`"application/json": {"schema": {"allOf": [` + plain + `, {"properties": {"b": {}}}]}}`, &openapi.Body{Kind: "json", Media: "application/json", Fields: []openapi.Field{{Arg: "a", Name: "a"}, {Arg: "b", Name: "b"}}}, []string{"id", "a", "b"}},
		"form": {
			`"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}},
				"encoding": {"b": {"style": "deepObject", "explode": true}, "c": {"explode": false}, "d": {"allowReserved": false}, "e": {"contentType": "application/json"}}}`,
			&openapi.Body{Kind: "form", Media: "application/x-www-form-urlencoded", Fields: []openapi.Field{
				{Arg: "a", Name: "a"},
				{Arg: "b", Name: "b", Style: "deepObject", Explode: true},
				{Arg: "c", Name: "c", Style: "form"},
				{Arg: "d", Name: "d", Style: "form", Explode: true},
				{Arg: "e", Name: "e"},
			}},
			[]string{"id", "a", "b", "c", "d", "e"},
		},
		"parts": {
			`"multipart/form-data": {"schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}, "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
				"note": {"type": "string"}}}, "encoding": {"file": {"contentType": "image/png"}, "note": {"contentType": "text/plain, text/html"}}}`,
			&openapi.Body{Kind: "multipart", Media: "multipart/form-data", Fields: []openapi.Field{
				{Arg: "file", Name: "file", File: true, Media: "image/png"}, {Arg: "more", Name: "more", File: true}, {Arg: "note", Name: "note"},
			}},
			[]string{"id", "file", "more", "note"},
		},
		"parts of no type, and encoded ones": {
			`"multipart/form-data": {"schema": {"type": "object", "properties": {"any": {}, "all": {"type": "array", "items": {"description": "A picture."}},
				"png": {"type": ["string", "null"], "contentMediaType": "image/png"}, "html": {"type": "string", "contentMediaType": "text/html"},
				"text": {"type": "string", "contentEncoding": "base64"}, "texts": {"type": "array", "items": {"type": "string", "contentEncoding": "base64url", "contentMediaType": "image/png"}},
				"json": {}, "one": {"enum": ["a", 1]}}}, "encoding": {"json": {"contentType": "application/json"}, "texts": {"contentType": "image/png"}}}`,
			&openapi.Body{Kind: "multipart", Media: "multipart/form-data", Fields: []openapi.Field{
				{Arg: "any", Name: "any", File: true},
				{Arg: "all", Name: "all", File: true},
				{Arg: "png", Name: "png", File: true},
				{Arg: "html", Name: "html"},
				{Arg: "text", Name: "text", Media: "application/octet-stream"},
				{Arg: "texts", Name: "texts", Media: "image/png"},
				{Arg: "json", Name: "json", Media: "application/json"},
				{Arg: "one", Name: "one"},
			}},
			[]string{"id", "any", "all", "png", "html", "text", "texts", "json", "one"},
		},
		"free form": {`"multipart/form-data": {"schema": {"type": "object"}}`, &openapi.Body{Kind: "multipart", Media: "multipart/form-data", Arg: "body"}, []string{"id", "body"}},
		"text":      {`"text/markdown": {}`, &openapi.Body{Kind: "text", Media: "text/markdown", Arg: "body"}, []string{"id", "body"}},
		"bytes":     {`"application/octet-stream": {}`, &openapi.Body{Kind: "bytes", Media: "application/octet-stream", Arg: "body"}, []string{"id", "body"}},
		"a range":   {`"image/*": {}`, &openapi.Body{Kind: "bytes", Media: "application/octet-stream", Arg: "body"}, []string{"id", "body"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := listOne(t, `"post": {"requestBody": {"content": {`+tc.content+`}}}`, nil)
			if diff := cmp.Diff(tc.want, readBinding(t, d).Body); diff != "" {
				t.Error(diff)
			}
			if names, _ := inputOf(t, d); !slices.Equal(names, tc.names) {
				t.Errorf("arguments %q, want %q", names, tc.names)
			}
		})
	}
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		document string
		want     *openapi.Binding
	}{
		"the GET":          {`"get": {}, "patch": {"operationId": "it"}`, &openapi.Binding{Method: "GET", Path: "/it", Params: nil}},
		"none":             {`"patch": {"operationId": "it"}`, nil},
		"not of POST":      {`"get": {}, "post": {"operationId": "it"}`, nil},
		"wants more":       {`"get": {"parameters": [{"name": "a", "in": "query", "required": true}]}, "put": {"operationId": "it"}`, nil},
		"could have more":  {`"get": {"parameters": [{"name": "a", "in": "query"}]}, "put": {"operationId": "it"}`, &openapi.Binding{Method: "GET", Path: "/it"}},
		"has it in common": {`"parameters": [{"name": "a", "in": "query", "required": true}], "get": {}, "put": {"operationId": "it"}`, &openapi.Binding{Method: "GET", Path: "/it", Params: []openapi.Param{{Arg: "a", Name: "a", In: "query", Style: "form", Explode: true}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, `{"openapi": "3.1.0", "paths": {"/it": {`+tc.document+`}}}`)
			// The GET need not be one of the tools.
			server.API.Preview, server.API.Include = true, []tool.OperationFilter{{OperationID: "it"}}
			listing, err := source.List(t.Context(), server)
			if err != nil || len(listing.Tools) != 1 {
				t.Fatalf("%+v, %v", listing, err)
			}
			if diff := cmp.Diff(tc.want, readBinding(t, listing.Tools[0]).Preview); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Base URLs if the operator sets none
func TestBases(t *testing.T) {
	t.Parallel()
	const named = `"servers": [{"url": "https://pets.example/v1/"}], `
	for name, tc := range map[string]struct{ servers, operation, base, want, failure, skipped string }{
		"the document's":       {servers: named, want: "https://pets.example/v1"},
		"the operator's":       {servers: named, base: "https://other.example", want: ""},
		"its own":              {servers: named, operation: `"servers": [{"url": "https://up.example"}]`, want: "https://up.example"},
		"its own, and another": {servers: named, operation: `"servers": [{"url": "https://up.example"}]`, base: "https://other.example", skipped: "another server for it, https://up.example"},
		"its own alone":        {operation: `"servers": [{"url": "https://up.example"}]`, base: "https://other.example", want: ""},
		"variables":            {servers: `"servers": [{"url": "https://{a}.example/{b}", "variables": {"a": {"default": "x"}, "b": {"default": "v2"}}}], `, want: "https://x.example/v2"},
		"no default":           {servers: `"servers": [{"url": "https://{a}.example"}], `, failure: "must have a default for {a}: set base_url"},
		"relative":             {servers: `"servers": [{"url": "/v1"}], `, failure: "must be an absolute URL: set base_url"},
		"none":                 {failure: "must be an absolute URL: set base_url"},
		"no HTTP":              {servers: `"servers": [{"url": "ftp://a.example"}], `, failure: "must be an http or https URL: set base_url"},
		"a password":           {servers: `"servers": [{"url": "https://a:b@a.example"}], `, failure: "must have no user, query or fragment: set base_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, `{"openapi": "3.1.0", `+tc.servers+`"paths": {"/it": {"get": {`+tc.operation+`}}}}`)
			server.URL = tc.base
			listing, err := source.List(t.Context(), server)
			switch {
			case tc.failure != "":
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("got %v, want %q", err, tc.failure)
				}
			case tc.skipped != "":
				if err != nil || len(listing.Skipped) != 1 || !strings.Contains(listing.Skipped[0].Reason, tc.skipped) {
					t.Errorf("%+v, %v", listing, err)
				}
			case err != nil || len(listing.Tools) != 1 || readBinding(t, listing.Tools[0]).Base != tc.want:
				t.Errorf("%+v, %v, want %q", listing, err, tc.want)
			}
		})
	}
}

package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Documents that cost too much or mislead their readers
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	bomb := func(levels int) string {
		var b strings.Builder
		b.WriteString("openapi: 3.0.3\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n")
		for i := 1; i <= levels; i++ {
			fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 10), ", "))
		}
		return b.String()
	}
	for name, tc := range map[string]struct{ document, want string }{
		"empty":            {"", "the document cannot be read as YAML: it is empty"},
		"no text":          {"\x00\x01", "cannot be read as YAML"},
		"a list":           {"[]", "must be an object"},
		"deep":             {`{"openapi":"3.1.0","x":` + strings.Repeat("[", 100_000), "nested deeper than 200"},
		"deep YAML":        {"openapi: 3.1.0\nx: " + strings.Repeat("[", 5000), "cannot be read as YAML"},
		"deep good YAML":   {"openapi: 3.1.0\nx: " + strings.Repeat("[", 500) + strings.Repeat("]", 500), "nested deeper than 200"},
		"aliases":          {bomb(8), "too many values"},
		"alias in itself":  {"openapi: 3.0.3\nx: &x [*x]\n", "nested deeper than 200"},
		"many values":      {`{"openapi":"3.1.0","x":[` + strings.Repeat("0,", 4_100_000) + `0]}`, "too many values"},
		"not UTF-8":        {"{\"openapi\":\"3.1.0\",\"x\":\"\xff\"}", "invalid UTF-8"},
		"more than one":    {`{"openapi":"3.1.0"} {}`, "something follows"},
		"paths are a list": {`{"openapi":"3.1.0","paths":[]}`, "paths: must be an object"},
		"terminal":         {`{"openapi":"\u001b[31m"}`, `not \x1b[31m`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openapi.CheckDocument([]byte(tc.document))
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// An invalid operation is skipped with a reason, and does not affect the others.
func TestSkippedOperations(t *testing.T) {
	t.Parallel()
	allOf := func(levels int) string {
		var b strings.Builder
		for i := range levels {
			next := fmt.Sprintf(`{"$ref":"#/components/schemas/W%d"}`, i+1)
			fmt.Fprintf(&b, `"W%d":{"allOf":[%s]},`, i, strings.TrimSuffix(strings.Repeat(next+",", 10), ","))
		}
		return b.String()
	}
	const params = `"parameters": [%s]`
	for name, tc := range map[string]struct{ operation, want string }{
		"no object":            {`"get": 3`, ""},
		"elsewhere":            {`"get": {"parameters": [{"$ref": "other.yaml#/a"}]}`, "only references within the document"},
		"a file":               {`"get": {"parameters": [{"name":"a","in":"query","schema":{"$ref":"file:///etc/passwd"}}]}`, "only references within the document"},
		"the metadata":         {`"post": {"requestBody": {"$ref": "http://169.254.169.254/latest"}}`, "only references within the document"},
		"nowhere":              {`"get": {"parameters": [{"name":"a","in":"query","schema":{"$ref":"#/components/schemas/None"}}]}`, "leads nowhere"},
		"round":                {`"get": {"parameters": [{"$ref": "#/components/parameters/Round"}]}`, "references go round in circles"},
		"schema round":         {`"get": {"parameters": [{"name":"a","in":"query","schema":{"$ref":"#/components/schemas/RoundA"}}]}`, "references go round in circles"},
		"wide":                 {`"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/W0"}}}}}`, "schemas apply to one value"},
		"type":                 {`"get": {"parameters": [{"name":"a","in":"query","schema":{"type":"strin"}}]}`, "its input schema cannot be used: /properties/a/type: value must be one of"},
		"number":               {`"get": {"parameters": [{"name":"a","in":"query","schema":{"minimum":1e99999999}}]}`, "number with an exponent beyond"},
		"place":                {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"a","in":"url"}`), "in: must be path, query, header or cookie"},
		"no name":              {fmt.Sprintf(`"get": {`+params+`}`, `{"in":"query"}`), "a parameter has no name"},
		"no parameter":         {fmt.Sprintf(`"get": {`+params+`}`, `7`), "a parameter has no name"},
		"style":                {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"a","in":"query","style":"matrix"}`), "style: \"matrix\" is none of parameters in query"},
		"content":              {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"a","in":"query","content":{"text/xml":{}}}`), "content: must be JSON"},
		"a header of ours":     {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"host","in":"header","required":true}`), "is a header that Holdpoint sets itself"},
		"forwarded":            {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"x-FORWARDED-for","in":"header","required":true}`), "is a header that Holdpoint sets itself"},
		"two lines":            {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"X-A\r\nX-B","in":"header","required":true}`), "is no name of a header"},
		"cookie":               {fmt.Sprintf(`"get": {`+params+`}`, `{"name":"a=b; c","in":"cookie","required":true}`), "is no name of a cookie"},
		"many parameters":      {fmt.Sprintf(`"get": {`+params+`}`, strings.Repeat(`{},`, 500)+`{}`), "more than 500 parameters"},
		"TRACE":                {`"trace": {}`, "TRACE is not offered"},
		"body of GET":          {`"get": {"requestBody": {"required": true, "content": {"application/json": {}}}}`, "a GET has none"},
		"media type":           {`"post": {"requestBody": {"content": {"application/json\r\nX: y": {}}}}`, "none of its media types"},
		"multipart of what":    {`"post": {"requestBody": {"content": {"multipart/form-data": {"schema": {"type": "string"}}}}}`, "only objects are written"},
		"another host for it":  {`"get": {"servers": [{"url": "https://evil.example"}]}`, "the document names another server for it, https://evil.example"},
		"a user in its server": {`"get": {"servers": [{"url": "https://a:b@pets.example/v1"}]}`, "must have no user, query or fragment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, `{"openapi": "3.0.3", "servers": [{"url": "https://pets.example/v1"}], "paths": {"/it": {`+tc.operation+`}, "/ok": {"get": {"operationId": "ok"}}},
				"components": {"parameters": {"Round": {"$ref": "#/components/parameters/Round"}}, "schemas": {`+allOf(12)+`
				"W12": {"properties": {"a": {}}}, "RoundA": {"$ref": "#/components/schemas/RoundB"}, "RoundB": {"$ref": "#/components/schemas/RoundA"}}}}`)
			listing, err := source.List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if len(listing.Tools) != 2 {
					t.Errorf("%+v", listing)
				}
				return
			}
			if len(listing.Tools) != 1 || listing.Tools[0].Name != "ok" || len(listing.Skipped) != 1 || !strings.Contains(listing.Skipped[0].Reason, tc.want) {
				t.Errorf("skipped %q, tools %d, want %q", listing.Skipped, len(listing.Tools), tc.want)
			}
		})
	}
}

// FuzzDocument looks for documents that cause a panic or an invalid tool.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		pets, "openapi: 3.1.0\npaths: {/a: {get: {operationId: a}}}\n", `{"openapi":"3.0.0","paths":{"/{a}":{"post":{"parameters":[{"name":"a","in":"path","schema":{"nullable":true,"enum":[1]}}],` +
			`"requestBody":{"content":{"multipart/form-data":{"schema":{"allOf":[{"properties":{"f":{"type":"string","format":"binary"}}}]}}}},"responses":{"2XX":{"content":{"a/b+json":{"schema":{"oneOf":[{"type":"array"}]}}}}}}}}}`,
		`{"openapi":"3.1.0","paths":{"/a":{"$ref":"#/components/pathItems/a"}},"components":{"pathItems":{"a":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/paths/~1a"}}}}}}}}}}`,
		"openapi: 3.0.0\npaths:\n  <<: [&a {/x: {delete: {}}}, *a]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		found, err := openapi.Examine(t.Context(), document, "https://pets.example/openapi.json", openapi.Limits{})
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, o := range found.Operations {
			if names[o.Name] || !toolName.MatchString(o.Name) {
				t.Errorf("name %q", o.Name)
			}
			names[o.Name] = true
			if o.Skipped != "" {
				continue
			}
			if _, err := tool.CompileSchemas(tool.Definition{Name: o.Name, InputSchema: o.InputSchema, OutputSchema: o.OutputSchema}); err != nil {
				t.Errorf("%s: %v", o.Name, err)
			}
		}
	})
}

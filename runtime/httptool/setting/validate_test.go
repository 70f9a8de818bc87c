package setting_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestAPIProblems(t *testing.T) {
	t.Parallel()
	endpoint := func(e tool.Endpoint) tool.API {
		if e.Name == "" {
			e.Name = "get_it"
		}
		if e.Path == "" {
			e.Path = "/it/{id}"
		}
		return tool.API{Endpoints: []tool.Endpoint{e}}
	}
	with := func(name string, p tool.Parameter) tool.API {
		return endpoint(tool.Endpoint{Method: "post", Parameters: map[string]tool.Parameter{name: p}})
	}
	head := func(name, value string) tool.API {
		return endpoint(tool.Endpoint{Method: "POST", Headers: map[string]string{name: value}})
	}
	no := false
	for name, tc := range map[string]struct {
		api  tool.API
		want []string // beginnings of the problems; empty: there are none
	}{
		"short":            {api: endpoint(tool.Endpoint{})},
		"none":             {api: tool.API{}, want: []string{"endpoints: must be 1 to 2000"}},
		"name":             {api: endpoint(tool.Endpoint{Name: "a b"}), want: []string{"endpoints[0].name: must be 1 to 64"}},
		"twice":            {api: tool.API{Endpoints: []tool.Endpoint{{Name: "a", Path: "/"}, {Name: "a", Path: "/"}}}, want: []string{`endpoints[1].name: "a" is there twice`}},
		"method":           {api: endpoint(tool.Endpoint{Method: "FETCH"}), want: []string{"endpoints[0].method: must be GET"}},
		"trace":            {api: endpoint(tool.Endpoint{Method: "TRACE"}), want: []string{"endpoints[0].method: must be GET"}},
		"relative path":    {api: endpoint(tool.Endpoint{Path: "it"}), want: []string{"endpoints[0].path: must begin with /"}},
		"query in path":    {api: endpoint(tool.Endpoint{Path: "/it?a=b"}), want: []string{"endpoints[0].path: must have no query"}},
		"up":               {api: endpoint(tool.Endpoint{Path: "/it/../all"}), want: []string{"endpoints[0].path: must have no . and no .."}},
		"brace":            {api: endpoint(tool.Endpoint{Path: "/it/{id"}), want: []string{"endpoints[0].path: has a brace"}},
		"no name":          {api: endpoint(tool.Endpoint{Path: "/it/{}"}), want: []string{"endpoints[0].path: has {} without", "endpoints[0].parameters.: must be named"}},
		"line":             {api: endpoint(tool.Endpoint{Path: "/it\r\n"}), want: []string{"endpoints[0].path: has characters"}},
		"twice in path":    {api: endpoint(tool.Endpoint{Path: "/{id}/{id}"}), want: []string{"endpoints[0].path: has {id} twice"}},
		"body kind":        {api: endpoint(tool.Endpoint{Body: "xml"}), want: []string{"endpoints[0].body: must be json, form or multipart"}},
		"body of GET":      {api: endpoint(tool.Endpoint{Parameters: map[string]tool.Parameter{"a": {In: "body"}}}), want: []string{"endpoints[0].parameters.a.in: a GET has no body"}},
		"place":            {api: with("a", tool.Parameter{In: "url"}), want: []string{"endpoints[0].parameters.a.in: must be path, query"}},
		"not in path":      {api: with("a", tool.Parameter{In: "path"}), want: []string{"endpoints[0].parameters.a.in: the path has no {a}"}},
		"taken":            {api: with("id", tool.Parameter{In: "query"}), want: []string{"endpoints[0].parameters.id.in: must be path"}},
		"other name":       {api: with("id_query", tool.Parameter{In: "query", Name: "id"})},
		"path by name":     {api: with("customer", tool.Parameter{In: "path", Name: "id"})},
		"optional path":    {api: with("id", tool.Parameter{Required: &no}), want: []string{"endpoints[0].parameters.id.required: must be true"}},
		"type":             {api: with("a", tool.Parameter{Type: "text"}), want: []string{"endpoints[0].parameters.a.type: must be string"}},
		"header":           {api: with("a", tool.Parameter{In: "header", Name: "X-A"})},
		"host":             {api: with("host", tool.Parameter{In: "header"}), want: []string{"endpoints[0].parameters.host.name: is a header that Holdpoint"}},
		"authorization":    {api: with("authorization", tool.Parameter{In: "header"}), want: []string{"endpoints[0].parameters.authorization.name: is a header that"}},
		"forwarded":        {api: with("x-forwarded-for", tool.Parameter{In: "header"}), want: []string{"endpoints[0].parameters.x-forwarded-for.name: is a"}},
		"no header":        {api: with("a", tool.Parameter{In: "header", Name: "X A"}), want: []string{"endpoints[0].parameters.a.name: is no HTTP header"}},
		"no cookie":        {api: with("a", tool.Parameter{In: "cookie", Name: "a=b"}), want: []string{"endpoints[0].parameters.a.name: is no name of a cookie"}},
		"argument's name":  {api: with("a b", tool.Parameter{}), want: []string{"endpoints[0].parameters.a b: must be named with"}},
		"same place":       {api: endpoint(tool.Endpoint{Parameters: map[string]tool.Parameter{"a": {}, "b": {Name: "a"}}}), want: []string{"endpoints[0].parameters.b: goes to the same place as a"}},
		"schema":           {api: with("a", tool.Parameter{Schema: json.RawMessage(`{"type":"strin"}`)}), want: []string{"endpoints[0].parameters.a.schema: cannot be used"}},
		"schema elsewhere": {api: with("a", tool.Parameter{Schema: json.RawMessage(`{"$ref":"#/$defs/a"}`)}), want: []string{"endpoints[0].parameters.a.schema: cannot be used"}},
		"schema twice":     {api: with("a", tool.Parameter{Schema: json.RawMessage(`{"type":"string","type":"null"}`)}), want: []string{"endpoints[0].parameters.a.schema: cannot be used"}},
		"no schema":        {api: with("a", tool.Parameter{Schema: json.RawMessage(`[]`)}), want: []string{"endpoints[0].parameters.a.schema: must be a JSON Schema"}},
		"fixed header":     {api: head("Accept", "application/json")},
		"JSON of a kind":   {api: head("Content-Type", "application/vnd.api+json")},
		"no JSON":          {api: head("content-type", "text/xml"), want: []string{"endpoints[0].headers.content-type: must be a media type of JSON"}},
		"secret":           {api: head("authorization", "Bearer x"), want: []string{"endpoints[0].headers.authorization: is a secret"}},
		"framing":          {api: head("Transfer-Encoding", "chunked"), want: []string{"endpoints[0].headers.Transfer-Encoding: is a header that"}},
		"two lines":        {api: head("X-A", "a\r\nX-B: b"), want: []string{"endpoints[0].headers.X-A: its value must be"}},
		"tab":              {api: head("X-Mode", "dry\trun"), want: []string{"endpoints[0].headers.X-Mode: its value must be 1 to 8192 visible ASCII"}},
		"no ASCII":         {api: head("X-Who", "Z\u00fcrich"), want: []string{"endpoints[0].headers.X-Who: its value must be"}},
		"spaces":           {api: head("X-Who", "a b  c")},
		"space before":     {api: head("X-Who", " a"), want: []string{"endpoints[0].headers.X-Who: its value must be"}},
		"input":            {api: endpoint(tool.Endpoint{InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{}},"required":["id"]}`)})},
		"input, no object": {api: endpoint(tool.Endpoint{InputSchema: json.RawMessage(`{"type":"string"}`)}), want: []string{"endpoints[0].input_schema: must be of type object"}},
		"input, unknown": {
			api:  endpoint(tool.Endpoint{InputSchema: json.RawMessage(`{"type":"object","properties":{"x":{}}}`)}),
			want: []string{"endpoints[0].input_schema.properties.x: is none of", "endpoints[0].input_schema.required: must have id"},
		},
		"output":          {api: endpoint(tool.Endpoint{OutputSchema: json.RawMessage(`{"type":"array"}`)})},
		"output, no type": {api: endpoint(tool.Endpoint{OutputSchema: json.RawMessage(`{"oneOf":[{}]}`)}), want: []string{"endpoints[0].output_schema: must have a type"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareProblems(t, setting.Validate(&tc.api, tool.HTTPAPI), tc.want)
		})
	}
}

func TestFilterProblems(t *testing.T) {
	t.Parallel()
	api := tool.API{
		Include: []tool.OperationFilter{{Method: "get", Path: "/a/**"}, {}, {Path: "a"}},
		Exclude: []tool.OperationFilter{{Method: "X"}, {Tag: strings.Repeat("x", 513)}},
	}
	compareProblems(t, setting.Validate(&api, tool.OpenAPI), []string{
		"include[1]: must say something", "include[2].path: must begin with", "exclude[0].method: must be GET", "exclude[1].tag: must be at most 512",
	})
}

func compareProblems(t *testing.T, got []tool.Problem, want []string) {
	t.Helper()
	same := slices.EqualFunc(got, want, func(p tool.Problem, w string) bool { return strings.HasPrefix(p.Pointer+": "+p.Message, w) })
	if !same {
		t.Errorf("got %q, want %q", got, want)
	}
}

package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	strictjson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

// apiForm is what a form says of an HTTP API.
type apiForm struct {
	baseURL, spec, document                  string // document: only what was typed
	include, exclude, endpoints              string
	authType, authIn, authName, authUsername string
	authSecret                               string // only what was typed
	authKept, hasDocument                    bool
	preview, outputSchemas                   bool
}

func emptyAPIForm() apiForm { return apiForm{outputSchemas: true} }

func formOfAPI(s *agent.Skill) apiForm {
	f := emptyAPIForm()
	if !s.Transport.IsAPI() {
		return f
	}
	f.baseURL = s.URL
	api := s.API
	if api == nil {
		return f
	}
	f.spec, f.hasDocument, f.preview, f.outputSchemas = api.Spec, api.Document != "", api.Preview, !api.NoOutputSchemas
	f.include, f.exclude, f.endpoints = filterLines(api.Include), filterLines(api.Exclude), endpointsText(api.Endpoints)
	if a := api.Auth; a != nil {
		f.authType, f.authIn, f.authName, f.authUsername, f.authKept = a.Type, a.In, a.Name, a.Username, true
	}
	return f
}

func filterLines(list []tool.OperationFilter) string {
	lines := make([]string, len(list))
	for i, f := range list {
		lines[i] = setting.FormatFilter(f)
	}
	return strings.Join(lines, "\n")
}

// endpointsText writes endpoints as JSON, which is YAML too.
func endpointsText(list []tool.Endpoint) string {
	if len(list) == 0 {
		return ""
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list); err != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

func readAPIForm(r *http.Request, before apiForm) apiForm {
	f := apiForm{
		baseURL: line(r, "base_url"), spec: line(r, "spec"), document: text(r, "document"),
		include: text(r, "include"), exclude: text(r, "exclude"), endpoints: text(r, "endpoints"),
		authType: line(r, "auth.type"), authIn: line(r, "auth.in"), authName: line(r, "auth.name"), authUsername: line(r, "auth.username"),
		authSecret: r.PostFormValue("auth.secret"), authKept: before.authKept, hasDocument: before.hasDocument,
		preview: ticked(r, "preview"), outputSchemas: ticked(r, "output_schemas"),
	}
	if r.MultipartForm != nil && strings.TrimSpace(f.document) == "" {
		f.document = uploaded(r, "file")
	}
	return f
}

// uploaded is the text of a file that came with a form; empty: none came.
func uploaded(r *http.Request, name string) string {
	file, _, err := r.FormFile(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(file); err != nil {
		return ""
	}
	return b.String()
}

// filters reads one a line.
func (f *faults) filters(path, lines string) []tool.OperationFilter {
	list := []tool.OperationFilter{}
	for one := range strings.SplitSeq(lines, "\n") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		filter, err := setting.ParseFilter(one)
		if err != nil {
			f.add(path, fmt.Sprintf("line %q: %v", printable(clean(one)), err))
		}
		list = append(list, filter)
	}
	return list
}

// endpoints reads a list in YAML or JSON, as holdpoint.yaml has it.
func (f *faults) endpoints(path, text string) []tool.Endpoint {
	list := []tool.Endpoint{}
	if strings.TrimSpace(text) == "" {
		return list
	}
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		message := "cannot be read as YAML"
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			message = fmt.Sprintf("line %d: %s", located.GetToken().Position.Line, located.GetMessage())
		}
		f.add(path, printable(message))
		return list
	}
	if err := strictjson.Unmarshal(document, &list, strictjson.RejectUnknownMembers(true)); err != nil {
		f.add(path, endpointsFault(err))
		return []tool.Endpoint{}
	}
	return list
}

// endpointsFault says where in the list what is not as it should be.
func endpointsFault(err error) string {
	semantic, ok := errors.AsType[*strictjson.SemanticError](err)
	if !ok {
		return "must be a list of endpoints"
	}
	var at strings.Builder
	for token := range semantic.JSONPointer.Tokens() {
		if len(token) > 0 && token[0] >= '0' && token[0] <= '9' {
			at.WriteString("[" + token + "]")
		} else {
			at.WriteString("." + token)
		}
	}
	where := printable(strings.TrimPrefix(at.String(), "."))
	switch {
	case errors.Is(semantic.Err, strictjson.ErrUnknownName):
		return where + ": is unknown"
	case where == "":
		return "must be a list of endpoints"
	case semantic.JSONKind == jsontext.Kind('"'):
		return where + ": is a text, and should be something else"
	}
	return where + ": has another form than it should"
}

func (f *apiForm) auth() *agent.APIAuthSpec {
	return &agent.APIAuthSpec{Type: f.authType, In: f.authIn, Name: f.authName, Username: f.authUsername, Secret: f.authSecret}
}

// patch is what the form changes of the skill of an HTTP API.
func (f *apiForm) patch(wrong *faults, before *agent.Skill) agent.APIPatch {
	was := formOfAPI(before)
	patch := agent.APIPatch{BaseURL: &f.baseURL}
	if f.authType != "" || was.authKept {
		patch.Auth = f.auth()
		if f.authType == "" {
			patch.Auth = &agent.APIAuthSpec{}
		}
	}
	if before.Transport == tool.HTTPAPI {
		patch.Endpoints = new(wrong.endpoints("endpoints", f.endpoints))
		return patch
	}
	if strings.TrimSpace(f.document) != "" {
		patch.Document = &f.document
	}
	if f.spec != was.spec {
		patch.Spec = &f.spec
	}
	patch.Include, patch.Exclude = new(wrong.filters("include", f.include)), new(wrong.filters("exclude", f.exclude))
	patch.Preview, patch.OutputSchemas = &f.preview, &f.outputSchemas
	return patch
}

// parts are those of the form of an HTTP API.
func (f *apiForm) parts(transport tool.Transport, headers []pair) []view.FormPart {
	server := view.FormPart{Title: "API", Fields: []view.Field{f.baseField(transport)}}
	if transport == tool.HTTPAPI {
		server.Fields = append(server.Fields, f.endpointsField())
		return []view.FormPart{server, f.authPart(headers)}
	}
	hint := "It is read at each listing. Leave it out where the document is given below."
	if f.hasDocument {
		hint = "The skill has its document by value. A URL takes its place."
	}
	server.Fields = append(server.Fields, view.Field{
		Name: "spec", Label: "URL of the OpenAPI document", Kind: view.FieldLine, Value: f.spec, Code: true, Example: "https://api.example.com/openapi.json", Hint: hint,
	})
	operations := view.FormPart{Title: "Operations", Fields: []view.Field{
		{
			Name: "include", Label: "Included", Kind: view.FieldArea, Value: f.include, Code: true, Rows: 4, Example: "listOrders\ntag=orders,method=GET\npath=/orders/**",
			Hint: "One filter a line: an operationId, or some of tag=, method=, path= and operation_id= with commas between; * stands for any characters but /, ** for any. Nothing: all of the document.",
		},
		{Name: "exclude", Label: "Left out", Kind: view.FieldArea, Value: f.exclude, Code: true, Rows: 2, Hint: "Filters likewise, of operations that are left out again."},
		{
			Name: "preview", Label: "Show what a change would change", Kind: view.FieldCheck, On: f.preview,
			Hint: "Reviewers of a PUT, PATCH or DELETE see the present state, read by the GET of the same path.",
		},
		{
			Name: "output_schemas", Label: "Answers keep to the document’s schemas", Kind: view.FieldCheck, On: f.outputSchemas,
			Hint: "An answer that breaks the response schema is an error. Switch it off for an API that does not keep to its document.",
		},
	}}
	document := view.FormPart{Title: "Replace the document", Folded: true, Fields: f.documentFields()}
	return []view.FormPart{server, operations, document, f.authPart(headers)}
}

func (f *apiForm) baseField(transport tool.Transport) view.Field {
	return view.Field{
		Name: "base_url", Label: "Base URL", Kind: view.FieldLine, Value: f.baseURL, Code: true, Required: transport == tool.HTTPAPI, Example: "https://api.example.com/v1",
		Hint: "Requests go to paths below it. Left out with a document: the first server that the document names.",
	}
}

func (f *apiForm) documentFields() []view.Field {
	return []view.Field{
		{Name: "document", Label: "The document itself", Kind: view.FieldArea, Code: true, Rows: 6, Hint: "OpenAPI 3.0 or 3.1, in JSON or YAML, of at most 32 MiB."},
		{Name: "file", Label: "Or a file", Kind: view.FieldFile},
	}
}

func (f *apiForm) endpointsField() view.Field {
	return view.Field{
		Name: "endpoints", Label: "Endpoints", Kind: view.FieldArea, Value: f.endpoints, Code: true, Rows: 10,
		Example: "- name: get_weather\n  description: The weather in a city\n  path: /weather/{city}\n  parameters:\n    units: {description: metric or imperial}",
		Hint:    "A list in YAML or JSON, as in holdpoint.yaml: name, description, method (GET), path, parameters, body (json), headers.",
	}
}

func (f *apiForm) authPart(headers []pair) view.FormPart {
	secret := view.Field{Name: "auth.secret", Label: "Token, password or key", Kind: view.FieldSecret, Hint: "Stored encrypted, and never shown."}
	if f.authKept {
		secret.Hint = "Set, and kept while the rest stays the same, unless another is given."
	}
	return view.FormPart{Title: "Credentials", Fields: []view.Field{
		{Name: "auth.type", Label: "Requests are authenticated by", Kind: view.FieldSelect, Value: f.authType, Choices: []view.Choice{
			{Value: "", Word: "Nothing, headers, or OAuth (below)"},
			{Value: tool.APIBearer, Word: "A bearer token"},
			{Value: tool.APIBasic, Word: "User and password (basic)"},
			{Value: tool.APIKey, Word: "An API key"},
		}},
		secret,
		{Name: "auth.username", Label: "User", Kind: view.FieldLine, Value: f.authUsername, Hint: "Of basic."},
		{Name: "auth.in", Label: "Where the key goes", Kind: view.FieldSelect, Value: f.authIn, Hint: "Of an API key.", Choices: []view.Choice{
			{Value: "", Word: ""}, {Value: "header", Word: "A header"}, {Value: "query", Word: "A query parameter"}, {Value: "cookie", Word: "A cookie"},
		}},
		{Name: "auth.name", Label: "Its name", Kind: view.FieldLine, Value: f.authName, Code: true, Example: "X-Api-Key", Hint: "Of an API key: of the header, query parameter or cookie."},
		{
			Name: "headers", Label: "Headers", Kind: view.FieldPairs, Pairs: presentPairs(headers),
			Hint: "Sent with every request. Values are stored encrypted and never shown.",
		},
	}}
}

package skills

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
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// apiForm is the form of an HTTP API.
type apiForm struct {
	baseURL, spec, document                  string // document: only new input
	include, exclude, endpoints              string
	authType, authIn, authName, authUsername string
	authSecret                               string // only new input
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
		baseURL: shell.Line(r, "base_url"), spec: shell.Line(r, "spec"), document: shell.Text(r, "document"),
		include: shell.Text(r, "include"), exclude: shell.Text(r, "exclude"), endpoints: shell.Text(r, "endpoints"),
		authType: shell.Line(r, "auth.type"), authIn: shell.Line(r, "auth.in"), authName: shell.Line(r, "auth.name"), authUsername: shell.Line(r, "auth.username"),
		authSecret: r.PostFormValue("auth.secret"), authKept: before.authKept, hasDocument: before.hasDocument,
		preview: shell.Ticked(r, "preview"), outputSchemas: shell.Ticked(r, "output_schemas"),
	}
	if r.MultipartForm != nil && strings.TrimSpace(f.document) == "" {
		f.document = readUpload(r, "file")
	}
	return f
}

// readUpload returns the text of an uploaded file, or "".
func readUpload(r *http.Request, name string) string {
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

// readFilters reads one filter per line.
func readFilters(f *shell.Faults, path, lines string) []tool.OperationFilter {
	list := []tool.OperationFilter{}
	for one := range strings.SplitSeq(lines, "\n") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		filter, err := setting.ParseFilter(one)
		if err != nil {
			f.Add(path, fmt.Sprintf("line %q: %v", view.Printable(shell.Clean(one)), err))
		}
		list = append(list, filter)
	}
	return list
}

// readEndpoints reads a list in YAML or JSON, in the format of holdpoint.yaml.
func readEndpoints(f *shell.Faults, path, text string) []tool.Endpoint {
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
		f.Add(path, view.Printable(message))
		return list
	}
	if err := strictjson.Unmarshal(document, &list, strictjson.RejectUnknownMembers(true)); err != nil {
		f.Add(path, describeEndpointsFault(err))
		return []tool.Endpoint{}
	}
	return list
}

// describeEndpointsFault says which member of the list is invalid.
func describeEndpointsFault(err error) string {
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
	where := view.Printable(strings.TrimPrefix(at.String(), "."))
	switch {
	case errors.Is(semantic.Err, strictjson.ErrUnknownName):
		return where + ": is unknown"
	case where == "":
		return "must be a list of endpoints"
	case semantic.JSONKind == jsontext.Kind('"'):
		return where + ": must not be a string"
	}
	return where + ": has the wrong type"
}

// authSpec returns the credentials without the fields of other methods, which the form does not show.
func (f *apiForm) authSpec() *agent.APIAuthSpec {
	spec := &agent.APIAuthSpec{Type: f.authType, Secret: f.authSecret}
	switch f.authType {
	case tool.APIBasic:
		spec.Username = f.authUsername
	case tool.APIKey:
		spec.In, spec.Name = f.authIn, f.authName
	}
	return spec
}

// makePatch returns the changes to the skill of an HTTP API.
func (f *apiForm) makePatch(wrong *shell.Faults, before *agent.Skill) agent.APIPatch {
	was := formOfAPI(before)
	patch := agent.APIPatch{BaseURL: &f.baseURL}
	if f.authType != "" || was.authKept {
		patch.Auth = f.authSpec()
		if f.authType == "" {
			patch.Auth = &agent.APIAuthSpec{}
		}
	}
	if before.Transport == tool.HTTPAPI {
		patch.Endpoints = new(readEndpoints(wrong, "endpoints", f.endpoints))
		return patch
	}
	if strings.TrimSpace(f.document) != "" {
		patch.Document = &f.document
	}
	if f.spec != was.spec {
		patch.Spec = &f.spec
	}
	patch.Include, patch.Exclude = new(readFilters(wrong, "include", f.include)), new(readFilters(wrong, "exclude", f.exclude))
	patch.Preview, patch.OutputSchemas = &f.preview, &f.outputSchemas
	return patch
}

// listParts returns the parts of the form.
func (f *apiForm) listParts(transport tool.Transport, headers []shell.Pair) []view.FormPart {
	server := view.FormPart{Title: text.SkillFormAPI(), Fields: []view.Field{f.baseField(transport)}}
	if transport == tool.HTTPAPI {
		server.Fields = append(server.Fields, f.endpointsField())
		return []view.FormPart{server, f.authPart(headers)}
	}
	hint := text.SkillFormSpecURLHint()
	if f.hasDocument {
		hint = text.SkillFormSpecURLReplaces()
	}
	server.Fields = append(server.Fields, view.Field{
		Name: "spec", Label: text.SkillFormSpecURL(), Kind: view.FieldLine, Value: f.spec, Code: true, Example: "https://api.example.com/openapi.json", Hint: hint,
	})
	operations := view.FormPart{Title: text.SkillFormOperations(), Fields: []view.Field{
		{
			Name: "include", Label: text.SkillFormIncluded(), Kind: view.FieldArea, Value: f.include, Code: true, Rows: 4, Example: "listOrders\ntag=orders,method=GET\npath=/orders/**",
			Hint: text.SkillFormIncludedHint(),
		},
		{Name: "exclude", Label: text.SkillFormExcluded(), Kind: view.FieldArea, Value: f.exclude, Code: true, Rows: 2, Hint: text.SkillFormExcludedHint()},
		{
			Name: "preview", Label: text.SkillFormPreview(), Kind: view.FieldCheck, On: f.preview,
			Hint: text.SkillFormPreviewHint(),
		},
		{
			Name: "output_schemas", Label: text.SkillFormOutputSchemas(), Kind: view.FieldCheck, On: f.outputSchemas,
			Hint: text.SkillFormOutputSchemasHint(),
		},
	}}
	document := view.FormPart{Title: text.SkillFormReplaceDocument(), Folded: true, Fields: f.documentFields()}
	return []view.FormPart{server, operations, document, f.authPart(headers)}
}

func (f *apiForm) baseField(transport tool.Transport) view.Field {
	return view.Field{
		Name: "base_url", Label: text.SkillFormBaseURL(), Kind: view.FieldLine, Value: f.baseURL, Code: true, Required: transport == tool.HTTPAPI, Example: "https://api.example.com/v1",
		Hint: text.SkillFormBaseURLHint(),
	}
}

func (f *apiForm) documentFields() []view.Field {
	return []view.Field{
		{Name: "document", Label: text.SkillFormDocument(), Kind: view.FieldArea, Code: true, Rows: 6, Hint: text.SkillFormDocumentHint()},
		{Name: "file", Label: text.SkillFormFile(), Kind: view.FieldFile},
	}
}

func (f *apiForm) endpointsField() view.Field {
	return view.Field{
		Name: "endpoints", Label: text.SkillFormEndpoints(), Kind: view.FieldArea, Value: f.endpoints, Code: true, Rows: 10,
		Example: "- name: get_weather\n  description: The weather in a city\n  path: /weather/{city}\n  parameters:\n    units: {description: metric or imperial}",
		Hint:    text.SkillFormEndpointsHint(),
	}
}

func (f *apiForm) authPart(headers []shell.Pair) view.FormPart {
	secret := view.Field{Name: "auth.secret", Label: text.SkillFormSecret(), Kind: view.FieldSecret, Hint: text.SkillFormSecretHint(), For: tool.APIBearer + " " + tool.APIBasic + " " + tool.APIKey}
	if f.authKept {
		secret.Hint = text.SkillFormSecretKept()
	}
	return view.FormPart{Title: text.SkillFormCredentials(), Fields: []view.Field{
		{Name: "auth.type", Label: text.SkillFormAuthType(), Kind: view.FieldSelect, Value: f.authType, Choices: []view.Choice{
			{Value: "", Word: text.SkillFormAuthNone()},
			{Value: tool.APIBearer, Word: text.SkillFormAuthBearer()},
			{Value: tool.APIBasic, Word: text.SkillFormAuthBasic()},
			{Value: tool.APIKey, Word: text.SkillFormAuthKey()},
		}},
		secret,
		{Name: "auth.username", Label: text.SkillFormUser(), Kind: view.FieldLine, Value: f.authUsername, For: tool.APIBasic, Hint: text.SkillFormUserHint()},
		{Name: "auth.in", Label: text.SkillFormKeyIn(), Kind: view.FieldSelect, Value: f.authIn, For: tool.APIKey, Hint: text.SkillFormKeyInHint(), Choices: []view.Choice{
			{Value: "", Word: text.Message{}}, {Value: "header", Word: text.SkillFormKeyInHeader()}, {Value: "query", Word: text.SkillFormKeyInQuery()}, {Value: "cookie", Word: text.SkillFormKeyInCookie()},
		}},
		{Name: "auth.name", Label: text.SkillFormKeyName(), Kind: view.FieldLine, Value: f.authName, For: tool.APIKey, Code: true, Example: "X-Api-Key", Hint: text.SkillFormKeyNameHint()},
		{
			Name: "headers", Label: text.SkillFormHeaders(), Kind: view.FieldPairs, Pairs: shell.PresentPairs(headers),
			Hint: text.SkillFormHeadersHint(),
		},
	}}
}

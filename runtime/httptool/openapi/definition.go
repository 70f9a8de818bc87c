package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// builder makes tools from the operations of one document for one skill.
type builder struct {
	doc    *document
	server *tool.Server
	limits Limits
	base   baseURLs
	in     *converter // of requests
	out    *converter // of answers
	all    []*operation
	gets   map[string]*operation // by path
}

func newBuilder(doc *document, server *tool.Server, limits Limits) *builder {
	b := &builder{
		doc: doc, server: server, limits: limits.withDefaults(), in: newConverter(doc, input), out: newConverter(doc, output), all: doc.listOperations(),
	}
	b.gets = map[string]*operation{}
	for _, o := range b.all {
		if o.method == "GET" && b.gets[o.path] == nil {
			b.gets[o.path] = o
		}
	}
	b.base = baseURLs{doc: doc, spec: server.API.Spec, operator: server.URL}
	return b
}

// operationTool is a tool made from an operation.
type operationTool struct {
	definition tool.Definition
	noOutput   string // why the document's output schema is not used
}

// buildTool makes the tool of an operation. Its error says why there is none.
func (b *builder) buildTool(o *operation) (operationTool, error) {
	b.doc.spend(checkInterval) // checks the context
	if o.err != nil {
		return operationTool{}, o.err
	}
	binding, inputSchema, err := b.bindOperation(o)
	if err != nil {
		return operationTool{}, err
	}
	answer := b.readAnswer(o)
	binding.Accept = answer.accept
	binding.Select = b.server.API.Select[o.name]
	if b.server.API.Preview {
		binding.Preview = b.previewOf(o, binding)
	}
	described := description{
		Name: o.name, Title: trimTitle(o.object.get("summary").str()),
		Description: joinDescription(o.object.get("summary").str(), o.object.get("description").str(), o.object.get("deprecated").isTrue()),
		InputSchema: inputSchema, Binding: binding,
	}
	result := operationTool{noOutput: answer.noSchema}
	if binding.Select == "" && !b.server.API.NoOutputSchemas {
		described.OutputSchema = answer.schema
	}
	b.doc.spend(len(inputSchema) + len(described.OutputSchema)) // compiling them is work, too
	result.definition, err = described.compileDefinition()
	if invalid, ok := errors.AsType[*outputError](err); ok {
		described.OutputSchema, result.noOutput = nil, invalid.Error()
		result.definition, err = described.compileDefinition()
	}
	return result, err
}

// bindOperation returns the binding of an operation and its input schema.
func (b *builder) bindOperation(o *operation) (*Binding, json.RawMessage, error) {
	if o.method == "TRACE" {
		return nil, nil, errors.New("method TRACE is not offered")
	}
	base, err := b.base.baseOf(o)
	if err == nil {
		err = b.checkServer(base)
	}
	if err != nil {
		return nil, nil, err
	}
	b.in.refs = nil
	binding := &Binding{Method: o.method, Base: base, Path: o.path}
	params, err := b.readParameters(o)
	if err != nil {
		return nil, nil, err
	}
	body, err := b.readBody(o)
	if err != nil {
		return nil, nil, err
	}
	schema, err := b.in.appendDefs(nameArguments(binding, params, body), b.in.refs, b.limits.InputBytes)
	if err == nil && len(schema) >= b.limits.InputBytes {
		err = errTooLarge
	}
	if errors.Is(err, errTooLarge) {
		return nil, nil, fmt.Errorf("its input schema is larger than %d KiB", b.limits.InputBytes>>10)
	}
	return binding, append(schema, '}'), err
}

// previewOf returns the binding of the GET at the same path. Nil: there is none, or it requires parameters that the call lacks.
func (b *builder) previewOf(o *operation, call *Binding) *Binding {
	if !slices.Contains([]string{"PUT", "PATCH", "DELETE"}, o.method) {
		return nil
	}
	get := b.gets[o.path]
	if get == nil {
		return nil
	}
	base, err := b.base.baseOf(get)
	if err != nil || b.checkServer(base) != nil {
		return nil
	}
	params, err := b.readParameters(get)
	if err != nil {
		return nil
	}
	return bindPreview(&Binding{Method: "GET", Base: base, Path: get.path, Accept: b.readAnswer(get).accept}, params, call)
}

// bindPreview gives the parameters of a GET the arguments of the call that changes the same resource. Nil: a required one is missing.
func bindPreview(get *Binding, params []argument, call *Binding) *Binding {
	for i := range params {
		param := params[i].param
		at := slices.IndexFunc(call.Params, func(p Param) bool { return p.In == param.In && p.Name == param.Name })
		switch {
		case at >= 0:
			param.Arg = call.Params[at].Arg
			get.Params = append(get.Params, param)
		case params[i].required:
			return nil
		}
	}
	return get
}

// description is the JSON form of a tool's definition.
type description struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  annotations     `json:"annotations"`
	Binding      *Binding        `json:"x-holdpoint-http"` // [tool.BindingMember]
}

type annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   bool   `json:"openWorldHint"`
}

// outputError: the output schema cannot be compiled.
type outputError struct{ err error }

func (e *outputError) Error() string {
	return "its output schema cannot be used: " + schemaProblem(e.err)
}
func (e *outputError) Unwrap() error { return e.err }

// schemaProblem returns the first problem of an invalid schema.
func schemaProblem(err error) string {
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return err.Error()
	}
	first, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return invalid.Err.Error()
	}
	for len(first.Causes) > 0 {
		first = first.Causes[0]
	}
	return "/" + strings.Join(first.InstanceLocation, "/") + ": " + first.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// compileDefinition returns the definition after it has compiled the schemas. An *outputError is about the output schema alone.
func (d *description) compileDefinition() (tool.Definition, error) {
	// The hints follow from the method (RFC 9110, sections 9.2 and 9.3). Only DELETE is known to destroy something. POST, PUT and PATCH
	// may or may not, so there is no hint.
	yes := true
	d.Annotations = annotations{Title: d.Title, ReadOnlyHint: IsSafeMethod(d.Binding.Method), OpenWorldHint: true}
	switch d.Binding.Method {
	case http.MethodPut:
		d.Annotations.IdempotentHint = &yes
	case http.MethodDelete:
		d.Annotations.DestructiveHint, d.Annotations.IdempotentHint = &yes, &yes
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return tool.Definition{}, err
	}
	definition, err := tool.ParseDefinition(raw)
	if err != nil {
		return definition, err
	}
	if _, err := tool.CompileSchemas(definition); err != nil {
		alone := definition
		alone.OutputSchema = nil
		if _, inputErr := tool.CompileSchemas(alone); inputErr == nil {
			return definition, &outputError{err}
		}
		return definition, fmt.Errorf("its input schema cannot be used: %s", schemaProblem(err))
	}
	return definition, nil
}

const (
	maxTitle       = 200  // bytes
	maxDescription = 4096 // bytes
)

// trimTitle returns a summary on one line.
func trimTitle(summary string) string {
	return truncateText(strings.Join(strings.Fields(summary), " "), maxTitle)
}

// joinDescription returns the description that agents and reviewers read.
func joinDescription(summary, text string, deprecated bool) string {
	summary, text = strings.TrimSpace(summary), strings.TrimSpace(text)
	var parts []string
	if deprecated {
		parts = append(parts, "Deprecated: its API may stop offering it.")
	}
	if summary != "" && !strings.HasPrefix(text, summary) {
		parts = append(parts, summary)
	}
	if text != "" {
		parts = append(parts, text)
	}
	return truncateText(strings.Join(parts, "\n\n"), maxDescription)
}

// truncateText keeps at most limit bytes of a text.
func truncateText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

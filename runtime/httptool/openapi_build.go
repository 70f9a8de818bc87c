package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// builder makes tools of the operations of one document, for one skill.
type builder struct {
	doc    *document
	server *tool.Server
	limits *Limits
	base   bases
	in     *schemas
	out    *schemas
	all    []*operation
	gets   map[string]*operation // by path
}

func newBuilder(doc *document, server *tool.Server, limits *Limits) *builder {
	b := &builder{doc: doc, server: server, limits: limits, in: newSchemas(doc, input), out: newSchemas(doc, output), all: doc.operations()}
	b.gets = map[string]*operation{}
	for _, o := range b.all {
		if o.method == "GET" && b.gets[o.path] == nil {
			b.gets[o.path] = o
		}
	}
	b.base = bases{doc: doc, origin: server.API.Spec, operators: server.URL}
	return b
}

// built is a tool that was made of an operation.
type built struct {
	definition tool.Definition
	// noOutput says why there is no output schema though the document has one.
	noOutput string
}

// build makes the tool of an operation. An error is the reason why there is none.
func (b *builder) build(o *operation) (built, error) {
	b.doc.spend(workByLook) // so that the context is looked at, too
	if o.err != nil {
		return built{}, o.err
	}
	binding, inputSchema, err := b.request(o)
	if err != nil {
		return built{}, err
	}
	answer := b.answer(o)
	binding.Accept = answer.accept
	binding.Select = b.server.API.Select[o.name]
	if b.server.API.Preview {
		binding.Preview = b.preview(o, binding)
	}
	described := description{
		Name: o.name, Title: title(o.object.get("summary").str()),
		Description: describe(o.object.get("summary").str(), o.object.get("description").str(), o.object.get("deprecated").isTrue()),
		InputSchema: inputSchema, Binding: binding,
	}
	result := built{noOutput: answer.noSchema}
	if binding.Select == "" && !b.server.API.NoOutputSchemas {
		described.OutputSchema = answer.schema
	}
	b.doc.spend(len(inputSchema) + len(described.OutputSchema)) // they are compiled
	result.definition, err = described.definition()
	if invalid, ok := errors.AsType[*outputError](err); ok {
		described.OutputSchema, result.noOutput = nil, invalid.Error()
		result.definition, err = described.definition()
	}
	return result, err
}

// request is how an operation's request is made of arguments, and their schema.
func (b *builder) request(o *operation) (*Binding, json.RawMessage, error) {
	if o.method == "TRACE" {
		return nil, nil, errors.New("method TRACE is not offered")
	}
	base, err := b.base.of(o)
	if err == nil {
		err = b.known(base)
	}
	if err != nil {
		return nil, nil, err
	}
	b.in.refs = nil
	binding := &Binding{Method: o.method, Base: base, Path: o.path}
	params, err := b.parameters(o)
	if err != nil {
		return nil, nil, err
	}
	body, err := b.body(o)
	if err != nil {
		return nil, nil, err
	}
	schema, err := b.in.appendDefs(arrange(binding, params, body), b.in.refs, b.limits.InputBytes)
	if err == nil && len(schema) >= b.limits.InputBytes {
		err = errTooLarge
	}
	if errors.Is(err, errTooLarge) {
		return nil, nil, fmt.Errorf("its input schema is larger than %d KiB", b.limits.InputBytes>>10)
	}
	return binding, append(schema, '}'), err
}

// preview is how the GET at the same path is asked for what a call would change. Nil: there is none that can be asked with what the call has.
func (b *builder) preview(o *operation, call *Binding) *Binding {
	if !slices.Contains([]string{"PUT", "PATCH", "DELETE"}, o.method) {
		return nil
	}
	get := b.gets[o.path]
	if get == nil {
		return nil
	}
	base, err := b.base.of(get)
	if err != nil || b.known(base) != nil {
		return nil
	}
	params, err := b.parameters(get)
	if err != nil {
		return nil
	}
	return previewBinding(&Binding{Method: "GET", Base: base, Path: get.path, Accept: b.answer(get).accept}, params, call)
}

// previewBinding gives the parameters of a GET the arguments of the call that changes what it reads.
func previewBinding(get *Binding, params []argument, call *Binding) *Binding {
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

// description is a tool's definition, before it is written.
type description struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  annotations     `json:"annotations"`
	Binding      *Binding        `json:"x-holdpoint-http"` // [Member]
}

type annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   bool   `json:"openWorldHint"`
}

// hints are what a method says of a tool (RFC 9110, sections 9.2 and 9.3). Only of DELETE it is known that something is gone afterwards; whether
// a POST, PUT or PATCH destroys anything is not, so nothing is claimed.
func hints(title, method string) annotations {
	yes := true
	a := annotations{Title: title, ReadOnlyHint: tool.ReadOnlyMethod(method), OpenWorldHint: true}
	switch method {
	case "PUT":
		a.IdempotentHint = &yes
	case "DELETE":
		a.DestructiveHint, a.IdempotentHint = &yes, &yes
	}
	return a
}

// outputError is what is wrong with an output schema.
type outputError struct{ err error }

func (e *outputError) Error() string {
	return "its output schema cannot be used: " + schemaProblem(e.err)
}
func (e *outputError) Unwrap() error { return e.err }

// schemaProblem says in short why a schema is none: the first thing that is wrong with it.
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

// definition writes and reads it, and compiles its schemas.
func (d *description) definition() (tool.Definition, error) {
	d.Annotations = hints(d.Title, d.Binding.Method)
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

func title(summary string) string { return cut(strings.Join(strings.Fields(summary), " "), maxTitle) }

// describe is what agents and reviewers read of an operation.
func describe(summary, text string, deprecated bool) string {
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
	return cut(strings.Join(parts, "\n\n"), maxDescription)
}

// cut keeps at most limit bytes of a text.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

// reason makes what is wrong with an operation fit for a list.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), tool.ErrDefinition.Error()+": ")
	return plain.Line(strings.Join(strings.Fields(text), " "), maxReason)
}

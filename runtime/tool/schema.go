package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schemas are a definition's compiled schemas. They are safe for concurrent use.
type Schemas struct {
	input  *jsonschema.Schema
	output *jsonschema.Schema // nil: the tool declares none
}

// Problem is one place where a value breaks its schema.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901; "" is the whole value
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return p.Pointer + ": " + p.Message
}

// maxProblems bounds what is told of one value.
const maxProblems = 50

// CompileSchemas compiles the schemas of a definition: by their $schema, else
// as JSON Schema 2020-12 (MCP). No $ref is ever fetched.
func CompileSchemas(d Definition) (*Schemas, error) {
	input, err := compile("inputSchema", d.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, err)
	}
	s := &Schemas{input: input}
	if len(d.OutputSchema) > 0 {
		if s.output, err = compile("outputSchema", d.OutputSchema); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, err)
		}
	}
	return s, nil
}

// noLoader refuses every reference to another document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %q: references to other documents are not followed", url)
}

func compile(name string, schema json.RawMessage) (_ *jsonschema.Schema, err error) {
	defer func() {
		// The library meets hostile text here; what it does not survive is an invalid schema.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: cannot be used: %v", name, cause)
		}
	}()
	if err := checkNumbers(schema); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	const base = "tool:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(base, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	compiled, err := c.Compile(base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := checkCost(compiled); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return compiled, nil
}

// ValidateInput lists everything that is wrong with a call's arguments.
func (s *Schemas) ValidateInput(arguments json.RawMessage) []Problem {
	return validate(s.input, arguments)
}

// ValidateOutput lists everything that is wrong with a result's structuredContent.
// A tool with an output schema must answer with one.
func (s *Schemas) ValidateOutput(structured json.RawMessage) []Problem {
	if s.output == nil {
		return nil
	}
	if len(structured) == 0 {
		return []Problem{{Message: "structuredContent is missing, though the tool declares an outputSchema"}}
	}
	return validate(s.output, structured)
}

func validate(schema *jsonschema.Schema, text json.RawMessage) (problems []Problem) {
	defer func() {
		// An error while judging means that the value does not pass.
		if cause := recover(); cause != nil {
			problems = []Problem{{Message: clip(fmt.Sprintf("cannot be validated: %v", cause))}}
		}
	}()
	if err := checkNumbers(text); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []Problem{{Message: clip("not JSON: " + err.Error())}}
	}
	err = schema.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Problem{{Message: clip(err.Error())}}
	}
	printer := message.NewPrinter(language.English)
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(problems) >= maxProblems {
			return
		}
		if len(e.Causes) == 0 {
			problems = append(problems, Problem{clip(pointer(e.InstanceLocation)), clip(e.ErrorKind.LocalizedString(printer))})
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(invalid)
	return problems
}

func pointer(location []string) string {
	escapes := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, part := range location {
		b.WriteByte('/')
		b.WriteString(escapes.Replace(part))
	}
	return b.String()
}

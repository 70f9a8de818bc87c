package tool

import (
	"bytes"
	"context"
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
	input  *validators
	output *validators // nil: the tool has none
}

// Problem is one place where a value does not match its schema.
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

// maxProblems bounds the problems of one value.
const maxProblems = 50

// CompileSchemas compiles the schemas of a definition, by their $schema or as JSON Schema 2020-12 (MCP). References to other documents are
// not fetched.
func CompileSchemas(d Definition) (*Schemas, error) {
	input, err := compileSchema("inputSchema", d.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, err)
	}
	s := &Schemas{input: input}
	if len(d.OutputSchema) > 0 {
		if s.output, err = compileSchema("outputSchema", d.OutputSchema); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, err)
		}
	}
	return s, nil
}

// compileSchema compiles a schema, and returns an error if it cannot be used.
func compileSchema(name string, schema json.RawMessage) (*validators, error) {
	if err := CheckNumbers(schema); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	v := &validators{name: name, doc: doc}
	first, err := v.compileOne()
	if err != nil {
		return nil, err
	}
	v.idle = []*validator{first}
	return v, nil
}

// ValidateInput returns the problems of a call's arguments. An error means that they could not be validated, and must not pass:
// [ErrTooComplex], or the error of ctx.
func (s *Schemas) ValidateInput(ctx context.Context, arguments json.RawMessage) ([]Problem, error) {
	return validateText(ctx, s.input, arguments)
}

// ValidateOutput returns the problems of a result's structuredContent. A tool with an output schema must return one. Errors are those of
// [Schemas.ValidateInput].
func (s *Schemas) ValidateOutput(ctx context.Context, structured json.RawMessage) ([]Problem, error) {
	if s.output == nil {
		return nil, nil
	}
	if len(structured) == 0 {
		return []Problem{{Message: "structuredContent is missing, though the tool declares an outputSchema"}}, nil
	}
	return validateText(ctx, s.output, structured)
}

func validateText(ctx context.Context, schema *validators, text json.RawMessage) ([]Problem, error) {
	if err := CheckNumbers(text); err != nil {
		return []Problem{{Message: err.Error()}}, nil //nolint:nilerr // it is a problem of the text
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []Problem{{Message: Clip("not JSON: " + err.Error())}}, nil //nolint:nilerr // likewise
	}
	invalid, err := schema.checkValue(ctx, value, len(text))
	switch {
	case errors.Is(err, ErrTooComplex), ctx.Err() != nil:
		return nil, err
	case err != nil:
		return []Problem{{Message: Clip(err.Error())}}, nil
	case invalid == nil:
		return nil, nil
	}
	return listErrors(invalid), nil
}

// listErrors returns the first problems in a tree of errors.
func listErrors(invalid *jsonschema.ValidationError) (problems []Problem) {
	printer := message.NewPrinter(language.English)
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(problems) >= maxProblems {
			return
		}
		if len(e.Causes) == 0 {
			var pointer strings.Builder
			for _, name := range e.InstanceLocation {
				pointer.WriteString("/" + escapePointer(name))
			}
			problems = append(problems, Problem{Clip(pointer.String()), Clip(e.ErrorKind.LocalizedString(printer))})
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(invalid)
	return problems
}

// escapePointer escapes a name for a JSON pointer (RFC 6901).
func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

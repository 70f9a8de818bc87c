package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds on arguments.
const (
	MaxArgumentBytes = 1 << 20
	MaxArgumentDepth = 500
)

// DoorError says why [CleanArguments] refused arguments.
type DoorError struct {
	Pointer string // into the arguments (RFC 6901); "" is the whole
	Reason  string
}

func (e *DoorError) Error() string {
	if e.Pointer == "" {
		return "arguments: " + e.Reason
	}
	return "arguments " + e.Pointer + ": " + e.Reason
}

// CleanArguments returns the argument bytes without insignificant white space. It does not decode and encode them, so the stored,
// shown, digested and sent bytes are those of the agent. It returns a *[DoorError] for anything but an object, duplicate
// names, invalid UTF-8, lone surrogates, more than [MaxArgumentBytes] or [MaxArgumentDepth], and numbers above
// [tool.NumberBudget].
func CleanArguments(raw []byte) (json.RawMessage, error) {
	if len(raw) > MaxArgumentBytes {
		return nil, &DoorError{Reason: fmt.Sprintf("must be at most %d bytes, not %d", MaxArgumentBytes, len(raw))}
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	var numbers tool.NumberBudget
	for first := true; ; first = false {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) && !first {
			break
		}
		if err != nil {
			return nil, syntaxError(err)
		}
		switch {
		case first && token.Kind() != '{':
			return nil, &DoorError{Reason: "must be a JSON object"}
		case !first && decoder.StackDepth() == 0 && token.Kind() != '}':
			return nil, &DoorError{Reason: "must be one JSON value"}
		case decoder.StackDepth() > MaxArgumentDepth:
			return nil, &DoorError{
				Pointer: clipPointer(string(decoder.StackPointer())),
				Reason:  fmt.Sprintf("must be nested at most %d deep", MaxArgumentDepth),
			}
		case token.Kind() == '0':
			if err := numbers.Spend(token.String()); err != nil {
				return nil, &DoorError{Pointer: clipPointer(string(decoder.StackPointer())), Reason: err.Error()}
			}
		}
	}
	clean := jsontext.Value(bytes.Clone(raw))
	if err := clean.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return nil, syntaxError(err)
	}
	return json.RawMessage(clean), nil
}

// syntaxError returns a DoorError for an error of the decoder.
func syntaxError(err error) *DoorError {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &DoorError{Reason: "must be JSON: it ends too early"}
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &DoorError{Reason: "must be JSON"}
	}
	reason := "must be JSON"
	if syntactic.Err != nil {
		reason = syntactic.Err.Error()
	}
	return &DoorError{Pointer: clipPointer(string(syntactic.JSONPointer)), Reason: reason}
}

// clipPointer bounds the length of a pointer, whose names come from the arguments.
func clipPointer(pointer string) string {
	const limit = 200
	if len(pointer) <= limit {
		return pointer
	}
	return strings.ToValidUTF8(pointer[:limit], "") + "…"
}

// maxSchemas bounds the compiled schemas in memory.
const maxSchemas = 4096

// maxValidations bounds the validations at a time, because each takes memory in proportion to the value.
const maxValidations = 16

// schemaCache caches compiled schemas by pin, and validates values against them. The schemas of a pin never change.
type schemaCache struct {
	validating chan struct{}

	mu      sync.RWMutex
	entries map[tool.Pin]*tool.Schemas
}

func newSchemaCache() *schemaCache {
	return &schemaCache{validating: make(chan struct{}, maxValidations), entries: map[tool.Pin]*tool.Schemas{}}
}

func (c *schemaCache) getSchemas(d tool.Definition) (*tool.Schemas, error) {
	c.mu.RLock()
	s, ok := c.entries[d.Pin()]
	c.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := tool.CompileSchemas(d)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxSchemas {
		clear(c.entries)
	}
	c.entries[d.Pin()] = s
	return s, nil
}

// runValidation runs a validation once fewer than maxValidations are running.
func (c *schemaCache) runValidation(ctx context.Context, check func() ([]tool.Problem, error)) ([]tool.Problem, error) {
	select {
	case c.validating <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a validation: %w", ctx.Err())
	}
	defer func() { <-c.validating }()
	return check()
}

// checkArguments returns a refusal if arguments do not match the input schema of a tool.
func (s *Service) checkArguments(ctx context.Context, definition tool.Definition, arguments json.RawMessage) (*refusal, error) {
	schemas, err := s.schemas.getSchemas(definition)
	if err != nil {
		return nil, err
	}
	problems, err := s.schemas.runValidation(ctx, func() ([]tool.Problem, error) { return schemas.ValidateInput(ctx, arguments) })
	switch {
	case errors.Is(err, tool.ErrTooComplex):
		message := "the arguments are " + err.Error() + ". Send fewer or less deeply nested values."
		return newRefusal(Invalid, CodeTooComplex, message), nil
	case err != nil: // ctx has ended
		return nil, err
	case len(problems) > 0:
		r := newRefusal(Invalid, CodeInvalidArguments, listProblems(problems))
		r.problems = problems
		return r, nil
	}
	return nil, nil
}

func listProblems(problems []tool.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

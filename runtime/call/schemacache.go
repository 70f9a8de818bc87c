package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxSchemas bounds the compiled schemas kept; a definition may be large.
const maxSchemas = 4096

// maxValidations is how many values are validated at one time. Each may take memory by its size.
const maxValidations = 16

// schemaCache keeps compiled schemas by pin, and validates with them. A pin's schemas never change.
type schemaCache struct {
	validating chan struct{}

	mu      sync.RWMutex
	entries map[tool.Pin]*tool.Schemas
}

func newSchemaCache() *schemaCache {
	return &schemaCache{validating: make(chan struct{}, maxValidations), entries: map[tool.Pin]*tool.Schemas{}}
}

func (c *schemaCache) get(d tool.Definition) (*tool.Schemas, error) {
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

// validate runs one validation, as soon as there is a place for it.
func (c *schemaCache) validate(ctx context.Context, check func() ([]tool.Problem, error)) ([]tool.Problem, error) {
	select {
	case c.validating <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a validation: %w", ctx.Err())
	}
	defer func() { <-c.validating }()
	return check()
}

// checkArguments refuses arguments that the input schema of a tool does not take. An error: ctx is over.
func (c *schemaCache) checkArguments(ctx context.Context, schemas *tool.Schemas, arguments json.RawMessage) (*refusal, error) {
	problems, err := c.validate(ctx, func() ([]tool.Problem, error) { return schemas.ValidateInput(ctx, arguments) })
	switch {
	case errors.Is(err, tool.ErrTooComplex):
		message := "the arguments are " + err.Error() + ". Send fewer or less deeply nested values."
		return unsent(Invalid, CodeTooComplex, message), nil
	case err != nil:
		return nil, err
	case len(problems) > 0:
		r := unsent(Invalid, CodeInvalidArguments, listProblems(problems))
		r.problems = problems
		return r, nil
	}
	return nil, nil
}

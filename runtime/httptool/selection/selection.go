// Package selection owns the jq programs by which an operator reduces the JSON answers of an HTTP API.
//
// An answer is hostile and a program may be careless, so each run is bounded in time and memory: guard.go puts checks before every
// operation of jq that could take too much in one step, and match.go replaces the functions on regular expressions.
package selection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"

	"github.com/itchyny/gojq"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The limits of a [Program].
const (
	maxProgram = 8 << 10 // bytes of the program
	maxInput   = 1 << 20 // bytes of the answer
	maxOutput  = 1 << 20 // bytes
	maxDepth   = 10_000  // levels of one result

	// MaxTime is the longest time that a caller should let a program run.
	MaxTime = 2 * time.Second
)

// Program is a jq program (in the dialect of github.com/itchyny/gojq) that runs on a JSON answer. It cannot read the environment,
// modules, or any input except the answer.
type Program struct {
	code     *gojq.Code
	budget   *budget
	matching *matching
}

// Parse reads a program. Its errors complete a sentence whose subject is the program.
func Parse(program string) (*Program, error) {
	if len(program) > maxProgram {
		return nil, fmt.Errorf("must be at most %d bytes long", maxProgram)
	}
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program: %s", plain.Line(err.Error(), 200))
	}
	if len(query.Imports) > 0 || query.Meta != nil {
		return nil, errors.New("is a jq program with modules, which there are none of")
	}
	functions, err := replacementsFor(query)
	if err != nil {
		return nil, err
	}
	guardQuery(query)
	query.FuncDefs = slices.Concat(functions, query.FuncDefs)
	budget := &budget{limit: maxHandled}
	matching := &matching{budget: budget, known: map[[2]string]*matcher{}}
	options := []gojq.CompilerOption{matching.compilerOption()}
	for name, check := range guardsWith(budget) {
		options = append(options, gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			if err := check(v); err != nil {
				return err
			}
			return true
		}))
	}
	code, err := gojq.Compile(query, options...)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program that can be run: %s", plain.Line(err.Error(), 200))
	}
	return &Program{code, budget, matching}, nil
}

// Run runs the program on a JSON text and returns one JSON text a line. Numbers that the program does not calculate with stay
// as they are written. Run checks ctx between the steps of the program and while a regular expression reads; no other step
// takes long. Only one goroutine may call it at a time.
func (s *Program) Run(ctx context.Context, text []byte) ([]byte, error) {
	if len(text) > maxInput {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxInput)
	}
	input, err := readNumbers(text)
	if err != nil {
		return nil, err
	}
	s.budget.left.Store(s.budget.limit)
	s.matching.ctx = ctx
	var made []byte
	for results := s.code.RunWithContext(ctx, input); ; {
		result, more := results.Next()
		if !more {
			return made, nil
		}
		if err, failed := result.(error); failed {
			return made, stopError(ctx, err)
		}
		room := maxOutput - len(made)
		if err := checkSize(result, &room, maxDepth); err != nil {
			return nil, err
		}
		line, err := gojq.Marshal(result)
		if err != nil {
			return nil, err
		}
		if len(made) > 0 {
			made = append(made, '\n')
		}
		if made = append(made, line...); len(made) > maxOutput {
			return nil, errOutputTooLong
		}
	}
}

var errOutputTooLong = fmt.Errorf("it makes more than %d bytes", maxOutput)

// checkSize refuses a result that would be too long or too deep as JSON. It runs before the result is written: a value may occur
// in many places of a result, and takes memory for each of them only when it is written.
func checkSize(v any, room *int, levels int) error {
	if levels == 0 {
		return fmt.Errorf("what it makes is nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case json.Number:
		*room -= len(v)
	case *big.Int:
		*room -= v.BitLen() / 4 // a lower bound of its digits
	case []any:
		for _, member := range v {
			if err := checkSize(member, room, levels-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			*room -= len(name)
			if err := checkSize(member, room, levels-1); err != nil {
				return err
			}
		}
	}
	if *room--; *room < 0 {
		return errOutputTooLong
	}
	return nil
}

// stopError returns why a program stopped early. Nil: it halted itself.
func stopError(ctx context.Context, err error) error {
	halted, ok := errors.AsType[*gojq.HaltError](err)
	switch {
	case ok && halted.Value() == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errors.New(plain.Line(err.Error(), 200))
}

// readNumbers reads a JSON text and keeps its numbers as they are written.
func readNumbers(text []byte) (any, error) {
	if err := tool.CheckNumbers(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var input any
	if err := decoder.Decode(&input); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON text")
	}
	return input, nil
}

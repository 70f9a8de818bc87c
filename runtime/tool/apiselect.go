package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/itchyny/gojq"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The bounds of a [Selection].
const (
	maxSelect       = 8 << 10         // bytes of the program
	maxSelected     = 1 << 20         // bytes of what it makes
	maxSelectedTime = 2 * time.Second // that it takes
)

// Selection is a program in jq (as github.com/itchyny/gojq has it) that makes of a JSON answer what is wanted of it. It reads
// no environment, no input but the answer, and no modules.
type Selection struct {
	code *gojq.Code
}

// ParseSelect reads a program.
func ParseSelect(program string) (*Selection, error) {
	if len(program) > maxSelect {
		return nil, fmt.Errorf("must be at most %d bytes long", maxSelect)
	}
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program: %s", plain.Line(err.Error(), 200))
	}
	if len(query.Imports) > 0 || query.Meta != nil {
		return nil, errors.New("is a jq program with modules, which there are none of")
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program that can be run: %s", plain.Line(err.Error(), 200))
	}
	return &Selection{code: code}, nil
}

// CheckSelect says what is wrong with a program; nil: nothing.
func CheckSelect(program string) error {
	_, err := ParseSelect(program)
	return err
}

// Run runs the program on a JSON text. What it makes is one JSON text a line; numbers that it does not calculate with stay as they are
// written.
func (s *Selection) Run(ctx context.Context, text []byte) ([]byte, error) {
	input, err := readNumbers(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxSelectedTime)
	defer cancel()
	var made []byte
	for results := s.code.RunWithContext(ctx, input); ; {
		result, more := results.Next()
		if !more {
			return made, nil
		}
		if err, failed := result.(error); failed {
			return made, selectError(ctx, err)
		}
		line, err := gojq.Marshal(result)
		if err != nil {
			return nil, err
		}
		if len(made) > 0 {
			made = append(made, '\n')
		}
		if made = append(made, line...); len(made) > maxSelected {
			return nil, fmt.Errorf("it makes more than %d bytes", maxSelected)
		}
	}
}

// selectError is what ended a program; nil: it did so itself.
func selectError(ctx context.Context, err error) error {
	halted, ok := errors.AsType[*gojq.HaltError](err)
	switch {
	case ok && halted.Value() == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("it took longer than %s", maxSelectedTime)
	}
	return errors.New(plain.Line(err.Error(), 200))
}

// readNumbers reads a JSON text whose numbers stay as they are written.
func readNumbers(text []byte) (any, error) {
	if err := checkNumbers(text); err != nil {
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

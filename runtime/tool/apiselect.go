package tool

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
)

// The bounds of a [Selection].
const (
	maxSelect       = 8 << 10 // bytes of the program
	maxSelectInput  = 1 << 20 // bytes of the answer
	maxSelected     = 1 << 20 // bytes of what it makes
	maxSelectedDeep = 10_000  // levels of what it makes

	// MaxSelectTime is what a program may take.
	MaxSelectTime = 2 * time.Second
)

// Selection is a program in jq (as github.com/itchyny/gojq has it) that makes of a JSON answer what is wanted of it. It reads
// no environment, no input but the answer, and no modules.
type Selection struct {
	code     *gojq.Code
	budget   *budget
	matching *matching
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
	functions, err := ownFunctions(query)
	if err != nil {
		return nil, err
	}
	guardQuery(query)
	query.FuncDefs = slices.Concat(functions, query.FuncDefs)
	may := &budget{}
	matching := &matching{budget: may, known: map[[2]string]*matcher{}}
	code, err := gojq.Compile(query, append(guardFunctions(may), matching.option())...)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program that can be run: %s", plain.Line(err.Error(), 200))
	}
	return &Selection{code, may, matching}, nil
}

// CheckSelect says what is wrong with a program; nil: nothing.
func CheckSelect(program string) error {
	_, err := ParseSelect(program)
	return err
}

// Run runs the program on a JSON text until ctx is over, which is looked at between its steps and while regular expressions
// read: no other step takes long. It is not for several goroutines at once. What it makes is one JSON text a line; numbers
// that it does not calculate with stay as they are written.
func (s *Selection) Run(ctx context.Context, text []byte) ([]byte, error) {
	if len(text) > maxSelectInput {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxSelectInput)
	}
	input, err := readNumbers(text)
	if err != nil {
		return nil, err
	}
	s.budget.left.Store(mostHandled)
	s.matching.ctx = ctx
	var made []byte
	for results := s.code.RunWithContext(ctx, input); ; {
		result, more := results.Next()
		if !more {
			return made, nil
		}
		if err, failed := result.(error); failed {
			return made, selectError(ctx, err)
		}
		room := maxSelected - len(made)
		if err := fits(result, &room, maxSelectedDeep); err != nil {
			return nil, err
		}
		line, err := gojq.Marshal(result)
		if err != nil {
			return nil, err
		}
		if len(made) > 0 {
			made = append(made, '\n')
		}
		if made = append(made, line...); len(made) > maxSelected {
			return nil, errSelectedLong
		}
	}
}

var errSelectedLong = fmt.Errorf("it makes more than %d bytes", maxSelected)

// fits reports, before it is written, what is too long or too deep to be: a value may stand in several places of what a program makes, so
// that writing it would take far more memory than it does.
func fits(v any, room *int, levels int) error {
	if levels == 0 {
		return fmt.Errorf("what it makes is nested deeper than %d", maxSelectedDeep)
	}
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case json.Number:
		*room -= len(v)
	case *big.Int:
		*room -= v.BitLen() / 4 // digits, and somewhat less
	case []any:
		for _, member := range v {
			if err := fits(member, room, levels-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			*room -= len(name)
			if err := fits(member, room, levels-1); err != nil {
				return err
			}
		}
	}
	if *room--; *room < 0 {
		return errSelectedLong
	}
	return nil
}

// selectError is what ended a program; nil: it did so itself.
func selectError(ctx context.Context, err error) error {
	halted, ok := errors.AsType[*gojq.HaltError](err)
	switch {
	case ok && halted.Value() == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
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

package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// What the door lets in. Deeper, larger and wilder values are refused: they
// serve no tool, and cost whoever must show, check or decode them.
const (
	MaxArgumentBytes = 1 << 20
	MaxArgumentDepth = 500
)

// DoorError says why arguments were refused at the door.
type DoorError struct {
	Pointer string // RFC 6901, where in the arguments; "" is the whole
	Reason  string
}

func (e *DoorError) Error() string {
	if e.Pointer == "" {
		return "arguments: " + e.Reason
	}
	return "arguments " + e.Pointer + ": " + e.Reason
}

// CleanArguments is the door. It returns the argument bytes with insignificant
// white space dropped, token by token: nothing is decoded and encoded again, so what is
// stored, shown, digested and sent is what the agent wrote. It refuses, with a *[DoorError],
// what is not an object, duplicate names, invalid UTF-8, lone surrogates,
// and excess size, depth and numbers (see [tool.NumberBudget]).
func CleanArguments(raw []byte) (json.RawMessage, error) {
	if len(raw) > MaxArgumentBytes {
		return nil, &DoorError{Reason: fmt.Sprintf("%d bytes, at most %d", len(raw), MaxArgumentBytes)}
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
		if err := checkToken(decoder, token, first, &numbers); err != nil {
			return nil, err
		}
	}
	clean := jsontext.Value(bytes.Clone(raw))
	if err := clean.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return nil, syntaxError(err)
	}
	return json.RawMessage(clean), nil
}

func checkToken(decoder *jsontext.Decoder, token jsontext.Token, first bool, numbers *tool.NumberBudget) error {
	switch {
	case first && token.Kind() != '{':
		return &DoorError{Reason: "want a JSON object"}
	case !first && decoder.StackDepth() == 0 && token.Kind() != '}':
		return &DoorError{Reason: "more than one JSON value"}
	case decoder.StackDepth() > MaxArgumentDepth:
		return &DoorError{
			Pointer: clip(string(decoder.StackPointer())),
			Reason:  fmt.Sprintf("nested deeper than %d", MaxArgumentDepth),
		}
	case token.Kind() == '0':
		if err := numbers.Spend(token.String()); err != nil {
			return &DoorError{Pointer: clip(string(decoder.StackPointer())), Reason: err.Error()}
		}
	}
	return nil
}

// syntaxError turns the decoder's complaint into ours, keeping where it was.
func syntaxError(err error) *DoorError {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &DoorError{Reason: "the JSON ends too early"}
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &DoorError{Reason: "not JSON"}
	}
	reason := "not JSON"
	if syntactic.Err != nil {
		reason = syntactic.Err.Error()
	}
	return &DoorError{Pointer: clip(string(syntactic.JSONPointer)), Reason: reason}
}

// clip bounds a pointer into hostile text.
func clip(pointer string) string {
	const limit = 200
	if len(pointer) <= limit {
		return pointer
	}
	return strings.ToValidUTF8(pointer[:limit], "") + "…"
}

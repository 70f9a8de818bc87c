package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	strictjson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// format is how bodies are read and written.
//
// Written: arguments and results are stored bytes and go out as they are, so
// nothing is escaped that was not, and no number is touched. Read: duplicate
// names, names in another case, unknown members and invalid UTF-8 are refused.
func format() huma.Format {
	return huma.Format{Marshal: marshal, Unmarshal: unmarshal}
}

func marshal(w io.Writer, v any) error {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	_, _ = w.Write(body.Bytes()) // the client may be gone: nobody is left to tell
	return nil
}

func unmarshal(data []byte, v any) error {
	if _, untyped := v.(*any); untyped { // for validation against the schema
		return explain(strictjson.Unmarshal(data, v))
	}
	return explain(strictjson.Unmarshal(data, v, strictjson.RejectUnknownMembers(true)))
}

// explain says what is wrong with a body in the words of JSON, not of Go.
func explain(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *strictjson.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic):
		return fmt.Errorf("not acceptable JSON at byte %d: %s", syntactic.ByteOffset, reason(syntactic.Err))
	case errors.As(err, &semantic):
		what := "not what is expected here"
		if expected, ok := errors.AsType[*agent.ExpectedError](err); ok {
			what = expected.Error()
		} else if semantic.Err != nil && semantic.JSONKind == 0 {
			what = semantic.Err.Error()
		} else if errors.Is(semantic.Err, strictjson.ErrUnknownName) {
			what = "unknown member"
		}
		return errors.New(string(semantic.JSONPointer) + pointerEnd + what)
	}
	return errors.New("not acceptable JSON")
}

// pointerEnd ends the JSON pointer that an error of a body begins with: huma takes over the text only.
const pointerEnd = "\x00"

// inBody takes an error of a body apart: where it is, as locations are written, and what was expected.
func inBody(text string) (location, what string) {
	end := strings.LastIndex(text, pointerEnd)
	if end < 0 {
		return "body", text
	}
	var at strings.Builder
	at.WriteString("body")
	for token := range jsontext.Pointer(text[:end]).Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			at.WriteString("[" + token + "]")
		} else {
			at.WriteString("." + token)
		}
	}
	return at.String(), text[end+1:]
}

func reason(err error) string {
	if err == nil {
		return "it ends too early"
	}
	return err.Error()
}

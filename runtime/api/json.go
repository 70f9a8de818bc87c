package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	strictjson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/duration"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// bodyFormat reads and writes bodies. It writes stored arguments and results unchanged: nothing is escaped, and no number is
// touched. It refuses duplicate names, names in another case, unknown members and invalid UTF-8.
func bodyFormat() huma.Format {
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			var body bytes.Buffer
			if err := rest.WriteLine(&body, v); err != nil {
				return fmt.Errorf("encode response: %w", err)
			}
			_, _ = w.Write(body.Bytes()) // the client may be gone
			return nil
		},
		Unmarshal: func(data []byte, v any) error {
			if _, untyped := v.(*any); untyped { // for validation against the schema
				return explainJSON(strictjson.Unmarshal(data, v))
			}
			return explainJSON(strictjson.Unmarshal(data, v, strictjson.RejectUnknownMembers(true)))
		},
	}
}

// explainJSON describes an error of a body in terms of JSON, not of Go.
func explainJSON(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *strictjson.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic):
		return fmt.Errorf("not acceptable JSON at byte %d: %s", syntactic.ByteOffset, syntaxReason(syntactic.Err))
	case errors.As(err, &semantic):
		what := "has the wrong type"
		if expected, ok := errors.AsType[*duration.ExpectedError](err); ok {
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

// inBody splits an error of a body into its location and the expected value.
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

func syntaxReason(err error) string {
	if err == nil {
		return "it ends too early"
	}
	return err.Error()
}

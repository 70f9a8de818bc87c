package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxEvidence bounds how much of an unacceptable answer is kept, in bytes.
const MaxEvidence = 64 << 10

// BrokeOff returns the failure of a request without an answer.
func BrokeOff(effect Effect, err error, format string, args ...any) *Failure {
	return &Failure{Kind: TransportFailure, Effect: effect, Message: fmt.Sprintf(format, args...), Err: err}
}

// Ended returns the failure of a request whose context ended before the answer.
func Ended(ctx context.Context, effect Effect, what string) *Failure {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return BrokeOff(effect, err, "%s: no answer before its time ran out", what)
	}
	return BrokeOff(effect, err, "%s: stopped before an answer came", what)
}

// Evidence returns an answer as valid JSON of bounded size. Small valid JSON stays as it is; all else becomes a JSON string with its
// beginning.
func Evidence(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) <= MaxEvidence && utf8.Valid(raw) && json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return Quote(WholeCharacters(raw[:min(len(raw), MaxEvidence)]))
}

// Quote returns a text as a JSON string. Invalid UTF-8 is replaced.
func Quote[T string | []byte](text T) json.RawMessage {
	quoted, _ := jsontext.AppendQuote(nil, text) // its error says that something was replaced
	return json.RawMessage(quoted)
}

// WholeCharacters removes the incomplete last character of a UTF-8 text that was cut anywhere.
func WholeCharacters(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if utf8.RuneStart(text[len(text)-i]) {
			if !utf8.FullRune(text[len(text)-i:]) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

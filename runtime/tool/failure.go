package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxEvidence bounds what of an unacceptable answer is kept as evidence.
const MaxEvidence = 64 << 10

// BrokeOff is the failure of a request that got no answer.
func BrokeOff(effect Effect, err error, format string, args ...any) *Failure {
	return &Failure{Kind: TransportFailure, Effect: effect, Message: fmt.Sprintf(format, args...), Err: err}
}

// Ended is the failure of a request whose context ended before its answer came.
func Ended(ctx context.Context, effect Effect, what string) *Failure {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return BrokeOff(effect, err, "%s: no answer before its time ran out", what)
	}
	return BrokeOff(effect, err, "%s: stopped before an answer came", what)
}

// Evidence makes valid JSON, of bounded size, of an answer that may be none:
// JSON that is small enough stays as it is, all else becomes a JSON string that
// holds its beginning.
func Evidence(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) <= MaxEvidence && utf8.Valid(raw) && json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return Quote(WholeCharacters(raw[:min(len(raw), MaxEvidence)]))
}

// Quote is a text as a string of JSON; what is not UTF-8 in it is replaced.
func Quote[T string | []byte](text T) json.RawMessage {
	quoted, _ := jsontext.AppendQuote(nil, text) // its error is that something was replaced
	return json.RawMessage(quoted)
}

// WholeCharacters is a beginning of a text in UTF-8 that was cut anywhere, without the character that was cut.
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

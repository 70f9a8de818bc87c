package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Pin is the SHA-256 of a tool's definition.
type Pin [sha256.Size]byte

func (p Pin) String() string { return hex.EncodeToString(p[:]) }

// IsZero reports whether p is the zero value, which is not a pin.
func (p Pin) IsZero() bool { return p == Pin{} }

// ParsePin parses the form that [Pin.String] prints.
func ParsePin(s string) (Pin, error) {
	var p Pin
	if n, err := hex.Decode(p[:], []byte(s)); err != nil || n != len(p) || len(s) != 2*len(p) {
		return Pin{}, fmt.Errorf("pin %q: must be %d hex digits", s, 2*len(p))
	}
	return p, nil
}

// Definition is one tool as its server describes it.
type Definition struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`

	raw json.RawMessage
	pin Pin
}

// ErrDefinition is wrapped by all errors of [ParseDefinition].
var ErrDefinition = errors.New("invalid tool definition")

// ParseDefinition parses one element of a tools/list result. Duplicate keys, a missing name and an input schema that is not an object are
// errors.
func ParseDefinition(raw json.RawMessage) (Definition, error) {
	var d Definition
	text := jsontext.Value(bytes.Clone(raw))
	// Duplicate names and invalid UTF-8 are errors, so that all readers see the same.
	strict := []jsontext.Options{jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false)}
	if !text.IsValid(strict...) {
		return d, fmt.Errorf("%w: not JSON in valid UTF-8 without duplicate names", ErrDefinition)
	}
	if err := text.Compact(append(strict, jsontext.PreserveRawStrings(true))...); err != nil {
		return d, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	// Unlike encoding/json, this matches names exactly: other readers must read the pinned members.
	var members struct {
		Name         string         `json:"name"`
		Title        string         `json:"title"`
		Description  string         `json:"description"`
		InputSchema  jsontext.Value `json:"inputSchema"`
		OutputSchema jsontext.Value `json:"outputSchema"`
		Annotations  jsontext.Value `json:"annotations"`
	}
	if err := jsonv2.Unmarshal(text, &members); err != nil {
		return d, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	d = Definition{
		Name: members.Name, Title: members.Title, Description: members.Description,
		InputSchema:  json.RawMessage(members.InputSchema),
		OutputSchema: json.RawMessage(members.OutputSchema),
		Annotations:  json.RawMessage(members.Annotations),
	}
	switch {
	case d.Name == "":
		return d, fmt.Errorf("%w: name is empty", ErrDefinition)
	case len(d.Name) > maxToolName:
		return d, fmt.Errorf("%w: name of %d bytes, at most %d", ErrDefinition, len(d.Name), maxToolName)
	case len(d.InputSchema) == 0 || d.InputSchema[0] != '{':
		return d, fmt.Errorf("%w: %q: inputSchema is not an object", ErrDefinition, d.Name)
	case len(d.OutputSchema) > 0 && string(d.OutputSchema) != "null" && d.OutputSchema[0] != '{':
		return d, fmt.Errorf("%w: %q: outputSchema is not an object", ErrDefinition, d.Name)
	}
	if string(d.OutputSchema) == "null" {
		d.OutputSchema = nil
	}
	if string(d.Annotations) == "null" {
		d.Annotations = nil
	}
	d.raw = json.RawMessage(text)
	pin, err := computePin(text)
	if err != nil {
		return d, fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, err)
	}
	d.pin = pin
	return d, nil
}

// maxToolName bounds the name that a server gives a tool, in bytes.
const maxToolName = 256

// computePin digests all members of a definition but _meta, including unknown ones, because agents may read them. The order of members and
// white space do not matter; numbers count as they are written.
func computePin(definition jsontext.Value) (Pin, error) {
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(definition, &members); err != nil {
		return Pin{}, err
	}
	delete(members, "_meta")
	text, err := jsonv2.Marshal(members)
	if err != nil {
		return Pin{}, err
	}
	value := jsontext.Value(text)
	err = value.Format(
		jsontext.ReorderRawObjects(true),
		jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
	)
	if err != nil {
		return Pin{}, err
	}
	return sha256.Sum256(value), nil
}

// Raw returns the definition as the server sent it, without white space. It may have members that Definition has no field for.
func (d Definition) Raw() json.RawMessage { return d.raw }

// Pin returns the digest of the definition.
func (d Definition) Pin() Pin { return d.pin }

// Hints are a tool's annotations: claims of its server, which never remove a check.
type Hints struct {
	Title           string `json:"title"`
	ReadOnlyHint    *bool  `json:"readOnlyHint"`
	DestructiveHint *bool  `json:"destructiveHint"`
	IdempotentHint  *bool  `json:"idempotentHint"`
	OpenWorldHint   *bool  `json:"openWorldHint"`
}

// Hints reads the annotations. Unreadable ones are no hints.
func (d Definition) Hints() Hints {
	var h Hints
	if len(d.Annotations) > 0 {
		if err := json.Unmarshal(d.Annotations, &h); err != nil {
			return Hints{}
		}
	}
	return h
}

// BindingMember is the member of a definition that says how arguments become an HTTP request. Holdpoint adds it: it is pinned like the
// others, shown to operators, and hidden from agents. Package runtime/httptool/openapi writes it.
const BindingMember = "x-holdpoint-http"

// Previewed reports whether the current state of a call's resource can be read first, see [Previewer].
func (d Definition) Previewed() bool {
	if !bytes.Contains(d.raw, []byte(BindingMember)) {
		return false
	}
	var members struct {
		Binding struct {
			Preview json.RawMessage `json:"preview"`
		} `json:"x-holdpoint-http"`
	}
	return json.Unmarshal(d.raw, &members) == nil && members.Binding.Preview != nil
}

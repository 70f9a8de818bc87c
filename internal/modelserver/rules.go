package modelserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// object is a JSON object whose members are read one by one.
type object map[string]json.RawMessage

func (o object) has(name string) bool {
	value, ok := o[name]
	return ok && string(value) != "null"
}

func (o object) text(name string) string {
	var text string
	_ = json.Unmarshal(o[name], &text)
	return text
}

func (o object) isText(name string) bool {
	var text string
	return o.has(name) && json.Unmarshal(o[name], &text) == nil
}

func (o object) object(name string) object {
	var inner object
	_ = json.Unmarshal(o[name], &inner)
	return inner
}

func (o object) list(name string) []object {
	var list []object
	_ = json.Unmarshal(o[name], &list)
	return list
}

func (o object) number(name string) int {
	var n int
	_ = json.Unmarshal(o[name], &n)
	return n
}

func (o object) bool(name string) bool { return string(o[name]) == "true" }

// unknown is a member that is none of those known; empty: there is none.
func (o object) unknown(known ...string) string {
	for name := range o {
		if !slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

func readObject(body []byte) (object, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o == nil {
		return nil, invalid("We could not parse the JSON body of your request.")
	}
	return o, nil
}

var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	idForm   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// compile reports a schema that is none. A compiler keeps what it compiled, so each has its own.
func compile(schema any) error {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", schema); err != nil {
		return err
	}
	_, err := c.Compile("schema.json")
	return err
}

// readTool holds a tool's name and schema against the rules that both formats have.
func readTool(where, name string, schema json.RawMessage, seen map[string]bool) (map[string]any, error) {
	if !nameForm.MatchString(name) {
		return nil, invalid(where + ": name does not match '^[a-zA-Z0-9_-]{1,64}$'")
	}
	if seen[name] {
		return nil, invalid(where + ": tool names must be unique: " + name)
	}
	seen[name] = true
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	found, ok := value.(map[string]any)
	switch {
	case err != nil || !ok:
		return nil, invalid(where + ": the schema is no object")
	case found["type"] != "object":
		return nil, invalid(fmt.Sprintf("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %v'", name, found["type"]))
	case found["properties"] == nil:
		return nil, invalid(fmt.Sprintf("Invalid schema for function '%s': In context=(), object schema missing properties", name))
	}
	for _, combination := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if found[combination] != nil {
			return nil, invalid(where + ": input_schema does not support oneOf, allOf, or anyOf at the top level")
		}
	}
	if err := compile(value); err != nil {
		return nil, invalid(where + ": JSON schema is invalid: " + err.Error())
	}
	return found, nil
}

func checkImage(mediaType, data string) error {
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType) {
		return invalid("unsupported image: " + mediaType)
	}
	if content, err := base64.StdEncoding.DecodeString(data); err != nil || len(content) == 0 {
		return invalid("invalid base64 data of an image")
	}
	return nil
}

// missing are the ids that are not among those answered.
func missing(calls []Call, answered map[string]bool) []string {
	var ids []string
	for _, call := range calls {
		if !answered[call.ID] {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

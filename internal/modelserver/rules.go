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

// object is a JSON object whose members are read one at a time.
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

// findUnknown returns a member that is not among the known ones, or "".
func (o object) findUnknown(known ...string) string {
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
		return nil, newRefusal("We could not parse the JSON body of your request.")
	}
	return o, nil
}

var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	idForm   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// checkSchema reports an invalid schema. Compilers keep their resources, so each schema has its own.
func checkSchema(schema any) error {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", schema); err != nil {
		return err
	}
	_, err := c.Compile("schema.json")
	return err
}

// readTool checks a tool's name and schema against the rules of both formats.
func readTool(where, name string, schema json.RawMessage, seen map[string]bool) (map[string]any, error) {
	if !nameForm.MatchString(name) {
		return nil, newRefusal(where + ": name does not match '^[a-zA-Z0-9_-]{1,64}$'")
	}
	if seen[name] {
		return nil, newRefusal(where + ": tool names must be unique: " + name)
	}
	seen[name] = true
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	found, ok := value.(map[string]any)
	switch {
	case err != nil || !ok:
		return nil, newRefusal(where + ": the schema is no object")
	case found["type"] != "object":
		return nil, newRefusal(fmt.Sprintf("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: %v'", name, found["type"]))
	case found["properties"] == nil:
		return nil, newRefusal(fmt.Sprintf("Invalid schema for function '%s': In context=(), object schema missing properties", name))
	}
	for _, combination := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if found[combination] != nil {
			return nil, newRefusal(where + ": input_schema does not support oneOf, allOf, or anyOf at the top level")
		}
	}
	if err := checkSchema(value); err != nil {
		return nil, newRefusal(where + ": JSON schema is invalid: " + err.Error())
	}
	return found, nil
}

func checkImage(mediaType, data string) error {
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType) {
		return newRefusal("unsupported image: " + mediaType)
	}
	if content, err := base64.StdEncoding.DecodeString(data); err != nil || len(content) == 0 {
		return newRefusal("invalid base64 data of an image")
	}
	return nil
}

// findUnanswered returns the ids of calls without results.
func findUnanswered(calls []Call, answered map[string]bool) []string {
	var ids []string
	for _, call := range calls {
		if !answered[call.ID] {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

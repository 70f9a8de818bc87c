package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is where in a tool's arguments attachments are.
const Member = "attachments"

// attachments are what arguments have there: an array, every element of which is an object with a string file_id. Anything else is
// not about files of ours.
type attachments struct {
	start, end int // of the array, in the arguments
	elements   []element
}

func (a *attachments) ours() bool { return a != nil && len(a.elements) > 0 }

// element is one attachment, as it is written.
type element struct {
	raw         jsontext.Value
	fileID      string
	filename    *string
	contentType *string
	others      []member // what is neither one of these, nor ours to say
}

type member struct{ name, value jsontext.Value }

// findAttachments returns nil where there are none that are ours.
func findAttachments(arguments json.RawMessage) (*attachments, error) {
	raw, end, err := topMember(arguments, Member)
	if err != nil || raw == nil || raw.Kind() != '[' {
		return nil, err
	}
	found := &attachments{start: end - len(raw), end: end}
	var values []jsontext.Value
	if err := eachElement(raw, func(v jsontext.Value) { values = append(values, v) }); err != nil {
		return nil, err
	}
	for _, v := range values {
		if !namesFile(v) {
			return nil, nil
		}
	}
	for i, v := range values {
		e, err := readElement(i, v)
		if err != nil {
			return nil, err
		}
		found.elements = append(found.elements, e)
	}
	return found, nil
}

// topMember finds a member of an object, and where it ends. Nil: it has none of that name.
func topMember(object json.RawMessage, name string) (value jsontext.Value, end int, err error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, 0, fmt.Errorf("read arguments: %w", err)
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, 0, fmt.Errorf("read arguments: %w", err)
		}
		found := token.String() == name
		v, err := decoder.ReadValue()
		if err != nil {
			return nil, 0, fmt.Errorf("read arguments: %w", err)
		}
		if found {
			return v.Clone(), int(decoder.InputOffset()), nil
		}
	}
	return nil, 0, nil
}

func eachElement(array jsontext.Value, do func(jsontext.Value)) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(array))
	if _, err := decoder.ReadToken(); err != nil {
		return fmt.Errorf("read attachments: %w", err)
	}
	for decoder.PeekKind() != ']' {
		v, err := decoder.ReadValue()
		if err != nil {
			return fmt.Errorf("read attachments: %w", err)
		}
		do(v.Clone())
	}
	return nil
}

// eachMember reads an object; its names as they are written and as they are meant.
func eachMember(object jsontext.Value, do func(written jsontext.Value, name string, value jsontext.Value)) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.ReadToken(); err != nil {
		return fmt.Errorf("read attachment: %w", err)
	}
	for decoder.PeekKind() == '"' {
		written, err := decoder.ReadValue()
		if err != nil {
			return fmt.Errorf("read attachment: %w", err)
		}
		written = written.Clone()
		name, err := jsontext.AppendUnquote(nil, written)
		if err != nil {
			return fmt.Errorf("read attachment: %w", err)
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return fmt.Errorf("read attachment: %w", err)
		}
		do(written, string(name), value.Clone())
	}
	return nil
}

func namesFile(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	named := false
	err := eachMember(v, func(_ jsontext.Value, name string, value jsontext.Value) {
		named = named || name == "file_id" && value.Kind() == '"'
	})
	return err == nil && named
}

func readElement(i int, v jsontext.Value) (element, error) {
	e := element{raw: v}
	var fault error
	text := func(name string, value jsontext.Value) *string {
		if value.Kind() != '"' {
			fault = wrong(i, "/"+name, "want a string")
			return nil
		}
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			fault = wrong(i, "/"+name, "want a string")
			return nil
		}
		s := string(unquoted)
		return &s
	}
	err := eachMember(v, func(written jsontext.Value, name string, value jsontext.Value) {
		switch name {
		case "file_id":
			if id := text(name, value); id != nil {
				e.fileID = *id
			}
		case "filename":
			e.filename = text(name, value)
		case "content_type":
			e.contentType = text(name, value)
		case "size", "sha256", "url": // ours to say, whatever the agent says
		default:
			e.others = append(e.others, member{written, value})
		}
	})
	if err == nil {
		err = fault
	}
	return e, err
}

// CheckEdit says what is wrong with the attachments in the arguments that a reviewer gives to a call: they may be dropped, but each
// that is there is one that the call was made with. files is whether it was made with any that are ours.
func CheckEdit(before, after json.RawMessage, files bool) error {
	value, _, err := topMember(after, Member)
	if err != nil || value == nil {
		return err
	}
	if !files {
		if found, err := findAttachments(after); err == nil && !found.ours() {
			return nil // of no file
		}
	}
	if value.Kind() != '[' {
		return &AttachmentError{"/" + Member, "want an array"}
	}
	had := map[string]bool{}
	if files {
		old, _, err := topMember(before, Member)
		if err != nil {
			return err
		}
		if err := eachElement(old, func(v jsontext.Value) { had[canonical(v)] = true }); err != nil {
			return err
		}
	}
	var present []jsontext.Value
	if err := eachElement(value, func(v jsontext.Value) { present = append(present, v) }); err != nil {
		return err
	}
	for i, v := range present {
		if !had[canonical(v)] {
			return wrong(i, "", "want one of the attachments that the call was made with, unchanged: they may be left out, but not changed or added")
		}
	}
	return nil
}

// canonical is equal for values that mean the same.
func canonical(v jsontext.Value) string {
	if err := v.Canonicalize(); err != nil {
		return "?" + strconv.Quote(string(v))
	}
	return string(v)
}

// takenMembers reports which members an attachment may have by a tool's input schema: all, unless it lists them and
// takes no others.
func takenMembers(schema json.RawMessage) func(string) bool {
	all := func(string) bool { return true }
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return all
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal(root["properties"], &properties) != nil {
		return all
	}
	item := itemsOf(schema, properties[Member])
	if string(bytes.TrimSpace(item["additionalProperties"])) != "false" || item["patternProperties"] != nil {
		return all
	}
	var listed map[string]json.RawMessage
	_ = json.Unmarshal(item["properties"], &listed) // none: it takes none
	return func(name string) bool {
		_, ok := listed[name]
		return ok
	}
}

// itemsOf is the schema of an array's elements, also where the array is one of several alternatives.
func itemsOf(root, array json.RawMessage) map[string]json.RawMessage {
	schema := resolve(root, array)
	if items := schema["items"]; items != nil {
		return resolve(root, items)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var alternatives []json.RawMessage
		if json.Unmarshal(schema[keyword], &alternatives) != nil {
			continue
		}
		for _, alternative := range alternatives {
			if items := resolve(root, alternative)["items"]; items != nil {
				return resolve(root, items)
			}
		}
	}
	return nil
}

const maxReferences = 10

// resolve follows references within the schema itself.
func resolve(root, schema json.RawMessage) map[string]json.RawMessage {
	for range maxReferences {
		var object map[string]json.RawMessage
		if json.Unmarshal(schema, &object) != nil {
			return nil
		}
		var reference string
		if json.Unmarshal(object["$ref"], &reference) != nil || reference == "" {
			return object
		}
		pointer, local := strings.CutPrefix(reference, "#/")
		if !local {
			return object
		}
		schema = root
		for part := range strings.SplitSeq(pointer, "/") {
			var level map[string]json.RawMessage
			if json.Unmarshal(schema, &level) != nil {
				return nil
			}
			schema = level[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
	}
	return nil
}

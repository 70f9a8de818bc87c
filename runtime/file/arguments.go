package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Member is the member of a tool's arguments that has the attachments.
const Member = "attachments"

// attachments are the value of that member: an array of objects, each with a string file_id. Other values are not attachments.
type attachments struct {
	start, end int // of the array, in the arguments
	elements   []element
}

func (a *attachments) hasFiles() bool { return a != nil && len(a.elements) > 0 }

// element is one attachment as the agent wrote it.
type element struct {
	raw         jsontext.Value
	fileID      string
	filename    *string
	contentType *string
	others      []member // all other members
}

type member struct{ name, value jsontext.Value }

// findAttachments returns nil if the arguments have no attachments.
func findAttachments(arguments json.RawMessage) (*attachments, error) {
	raw, end, err := findTopMember(arguments, Member)
	if err != nil || raw == nil || raw.Kind() != '[' {
		return nil, err
	}
	found := &attachments{start: end - len(raw), end: end}
	values, err := readElements(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if !hasFileID(v) {
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

// findTopMember returns a member of an object and the offset of its end, or nil.
func findTopMember(object json.RawMessage, name string) (value jsontext.Value, end int, err error) {
	for m, err := range rawjson.Members(object) {
		if err != nil {
			return nil, 0, fmt.Errorf("arguments: %w", err)
		}
		if m.Name() == name {
			return m.Value, m.End, nil
		}
	}
	return nil, 0, nil
}

// readElements returns copies of the elements of an array.
func readElements(array jsontext.Value) (elements []jsontext.Value, err error) {
	if err := jsonv2.Unmarshal(array, &elements); err != nil {
		return nil, fmt.Errorf("read attachments: %w", err)
	}
	return elements, nil
}

func hasFileID(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	named := false
	for m, err := range rawjson.Members(v) {
		if err != nil {
			return false
		}
		named = named || m.Name() == "file_id" && m.Value.Kind() == '"'
	}
	return named
}

func readElement(i int, v jsontext.Value) (element, error) {
	e := element{raw: v}
	var fault error
	text := func(name string, value jsontext.Value) *string {
		if value.Kind() != '"' {
			fault = newAttachmentError(i, "/"+name, "must be a string")
			return nil
		}
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			fault = newAttachmentError(i, "/"+name, "must be a string")
			return nil
		}
		s := string(unquoted)
		return &s
	}
	for m, err := range rawjson.Members(v) {
		if err != nil {
			return e, fmt.Errorf("attachment: %w", err)
		}
		switch name := m.Name(); name {
		case "file_id":
			if id := text(name, m.Value); id != nil {
				e.fileID = *id
			}
		case "filename":
			e.filename = text(name, m.Value)
		case "content_type":
			e.contentType = text(name, m.Value)
		case "size", "sha256", "url": // set by Holdpoint only
		default:
			e.others = append(e.others, member{m.Key, m.Value})
		}
	}
	return e, fault
}

// CheckEdit validates the attachments in a reviewer's edit of a call's arguments. An edit may remove attachments, but not add
// or change any. files reports whether the call has attachments.
func CheckEdit(before, after json.RawMessage, files bool) error {
	value, _, err := findTopMember(after, Member)
	if err != nil || value == nil {
		return err
	}
	if !files {
		if found, err := findAttachments(after); err == nil && !found.hasFiles() {
			return nil // not attachments
		}
	}
	if value.Kind() != '[' {
		return &AttachmentError{"/" + Member, "must be an array"}
	}
	had := map[string]bool{}
	if files {
		old, _, err := findTopMember(before, Member)
		if err != nil {
			return err
		}
		elements, err := readElements(old)
		if err != nil {
			return err
		}
		for _, v := range elements {
			had[canonicalForm(v)] = true
		}
	}
	present, err := readElements(value)
	if err != nil {
		return err
	}
	for i, v := range present {
		if !had[canonicalForm(v)] {
			return newAttachmentError(i, "", "must be one of the attachments that the call was made with, unchanged: they may be left out, but not changed or added")
		}
	}
	return nil
}

// canonicalForm returns the same text for JSON values with the same meaning.
func canonicalForm(v jsontext.Value) string {
	if err := v.Canonicalize(); err != nil {
		return "?" + strconv.Quote(string(v))
	}
	return string(v)
}

// acceptedMembers reports which members a tool's input schema accepts in an attachment. It accepts all, unless the schema lists
// the members and permits no others.
func acceptedMembers(schema json.RawMessage) func(string) bool {
	all := func(string) bool { return true }
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return all
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal(root["properties"], &properties) != nil {
		return all
	}
	item := findItems(schema, properties[Member])
	if string(bytes.TrimSpace(item["additionalProperties"])) != "false" || item["patternProperties"] != nil {
		return all
	}
	var listed map[string]json.RawMessage
	_ = json.Unmarshal(item["properties"], &listed) // without properties, it accepts none
	return func(name string) bool {
		_, ok := listed[name]
		return ok
	}
}

// findItems returns the schema of an array's elements. The array may be one of several alternatives.
func findItems(root, array json.RawMessage) map[string]json.RawMessage {
	schema := resolveReferences(root, array)
	if items := schema["items"]; items != nil {
		return resolveReferences(root, items)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var alternatives []json.RawMessage
		if json.Unmarshal(schema[keyword], &alternatives) != nil {
			continue
		}
		for _, alternative := range alternatives {
			if items := resolveReferences(root, alternative)["items"]; items != nil {
				return resolveReferences(root, items)
			}
		}
	}
	return nil
}

const maxReferences = 10

// resolveReferences follows references within the schema.
func resolveReferences(root, schema json.RawMessage) map[string]json.RawMessage {
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

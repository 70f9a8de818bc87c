package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// MetaPrefix is the prefix of Holdpoint's members of _meta.
const MetaPrefix = "dev.holdpoint/"

// errShape: not an object, or one with an ambiguous _meta.
var errShape = errors.New("not a result object")

// IsObject reports whether a JSON value is an object.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// DressResult returns the pieces of a result with members added to its _meta, and with a resultType if it is typed. Members that are
// reserved for Holdpoint and that the server wrote are removed.
func DressResult(raw, added []byte, typed bool) ([][]byte, error) {
	suspicious := bytes.Contains(raw, []byte(`"_meta"`)) || bytes.Contains(raw, []byte(`\u`))
	if added == nil && !typed && !suspicious {
		return [][]byte{raw}, nil
	}
	var meta rawjson.Member
	empty := true
	for m, err := range rawjson.Members(raw, rawjson.Lenient()) {
		if err != nil {
			return nil, errors.Join(errShape, err)
		}
		empty = false
		switch m.Name() {
		case "resultType":
			typed = false // it has one
		case "_meta":
			if meta.Value != nil {
				return nil, errShape
			}
			meta = m
		}
	}
	open := bytes.IndexByte(raw, '{') + 1
	var first []byte // member
	if typed {
		first = []byte(`"resultType":"complete"`)
		if !empty {
			first = append(first, ',')
		}
	}
	switch {
	case meta.Value != nil && (added != nil || IsObject(meta.Value)):
		merged, err := mergeMeta(meta.Value, added)
		return [][]byte{raw[:open], first, raw[open:meta.Start()], merged, raw[meta.End:]}, err
	case added != nil:
		end, separator := bytes.LastIndexByte(raw, '}'), []byte(",")
		if empty && !typed {
			separator = nil
		}
		return [][]byte{raw[:open], first, raw[open:end], separator, []byte(`"_meta":{`), added, []byte("}"), raw[end:]}, nil
	}
	return [][]byte{raw[:open], first, raw[open:]}, nil
}

// mergeMeta adds members to a _meta object and removes forged members that are reserved for Holdpoint. Other values are replaced.
func mergeMeta(raw, added []byte) ([]byte, error) {
	merged := []byte{'{'}
	if IsObject(raw) {
		var err error
		merged, err = rewriteMembers(raw, func(name string, value []byte) []byte {
			if isReserved(name) {
				return nil
			}
			return value
		})
		if err != nil {
			return nil, err
		}
	}
	if added != nil && len(merged) > 1 {
		merged = append(merged, ',')
	}
	return append(append(merged, added...), '}'), nil
}

// rewriteMembers copies an object up to its last member, each with the value that rewrite returns for it; nil: without the member.
func rewriteMembers(raw []byte, rewrite func(name string, value []byte) []byte) ([]byte, error) {
	object := append(make([]byte, 0, len(raw)+128), '{')
	for m, err := range rawjson.Members(raw, rawjson.Lenient()) {
		if err != nil {
			return nil, errors.Join(errShape, err)
		}
		value := rewrite(m.Name(), m.Value)
		if value == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, m.Key...), ':'), value...)
	}
	return object, nil
}

// FindMember returns the last member of an object with a name; without a value if there is none.
func FindMember(object []byte, name string) (found rawjson.Member, err error) {
	for m, err := range rawjson.Members(object, rawjson.Lenient()) {
		if err != nil {
			return rawjson.Member{}, errors.Join(errShape, err)
		}
		if m.Name() == name {
			found = m
		}
	}
	return found, nil
}

// CutMember returns a compact object without a member, and the member's value; nil if there is none.
func CutMember(object []byte, name string) (rest, value []byte, err error) {
	rest, err = rewriteMembers(object, func(member string, v []byte) []byte {
		if member == name {
			value = v
			return nil
		}
		return v
	})
	return append(rest, '}'), value, err
}

// PrependText returns a result with a text before all other content. A result without a content list is returned unchanged.
func PrependText(raw []byte, text string) []byte {
	content, err := FindMember(raw, "content")
	if err != nil || content.Value == nil || content.Value[0] != '[' {
		return raw
	}
	at := content.Start() + len("[")
	prepended := append(make([]byte, 0, len(raw)+len(text)+64), raw[:at]...)
	prepended = append(AppendText(prepended, text), ',')
	if rest := bytes.TrimSpace(content.Value[1:]); len(rest) == len("]") {
		prepended = prepended[:len(prepended)-1]
	}
	return append(prepended, raw[at:]...)
}

// AppendText appends a text block of a result's content.
func AppendText(dst []byte, text string) []byte {
	return append(rawjson.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
}

// RenameTool replaces the name in a definition with the agent's name for it, and removes Holdpoint's own member.
func RenameTool(definition []byte, name string) ([]byte, error) {
	isNamed := false
	renamed, err := rewriteMembers(definition, func(member string, value []byte) []byte {
		switch member {
		case tool.BindingMember:
			return nil
		case "name":
			isNamed = true
			return rawjson.AppendString(nil, name)
		}
		return value
	})
	if err == nil && !isNamed {
		err = errShape
	}
	return append(renamed, '}'), err
}

// ResultType returns the type of a result. Servers of earlier revisions omit it: complete.
func ResultType(raw []byte) (string, error) {
	kind := "complete"
	m, err := FindMember(raw, "resultType")
	if err == nil && m.Value != nil {
		err = json.Unmarshal(m.Value, &kind)
	}
	return kind, err
}

// MakePrivate limits caching to this client, and to the server's ttlMs or 0: the server does not know who else may have the
// result.
func MakePrivate(raw []byte) ([]byte, error) {
	hasScope, hasTTL := false, false
	private, err := rewriteMembers(raw, func(name string, value []byte) []byte {
		switch name {
		case "cacheScope":
			hasScope = true
			return []byte(`"private"`)
		case "ttlMs":
			hasTTL = true
		}
		return value
	})
	if !hasScope {
		private = rawjson.AppendMember(private, "cacheScope", []byte(`"private"`))
	}
	if !hasTTL {
		private = rawjson.AppendMember(private, "ttlMs", []byte("0"))
	}
	return append(private, '}'), err
}

// LongText is the text of a result that is longer than a client gets at once.
type LongText struct {
	Text string // of all text blocks of its content, each on a new line

	others  []json.RawMessage // the other blocks
	content rawjson.Member
}

// ReadLongText parses a result; nil if its text has at most limit bytes.
func ReadLongText(raw []byte, limit int) *LongText {
	if len(raw) <= limit {
		return nil
	}
	var found LongText
	var err error
	var elements []json.RawMessage
	if found.content, err = FindMember(raw, "content"); err != nil || json.Unmarshal(found.content.Value, &elements) != nil {
		return nil
	}
	var texts []string
	for _, element := range elements {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(element, &block); err == nil && block.Type == "text" {
			texts = append(texts, block.Text)
			continue
		}
		found.others = append(found.others, element)
	}
	if found.Text = strings.Join(texts, "\n"); len(found.Text) <= limit {
		return nil
	}
	return &found
}

// Replace returns the result with another text before its other content.
func (t *LongText) Replace(raw []byte, text string) []byte {
	result := append([]byte(nil), raw[:t.content.Start()]...)
	result = AppendText(append(result, '['), text)
	for _, other := range t.others {
		result = append(append(result, ','), other...)
	}
	return append(append(result, ']'), raw[t.content.End:]...)
}

package typed

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// The bounds on the values of a document that are recognized.
const (
	maxValues = 1000
	maxDepth  = 20
	maxBytes  = 1 << 20 // of scalars
)

// RecognizeDocument recognizes the values of a JSON document. It returns them by JSON Pointer (RFC 6901): scalars, and objects and lists, which
// have only warnings about their members, or recipients. It stops after a thousand values, and leaves out those that are nested more than
// 20 levels deep.
func RecognizeDocument(document []byte) map[string]Value {
	d := documentReader{values: map[string]Value{}, left: maxBytes}
	d.readValue("", "", bytes.TrimSpace(document), nil, 0)
	return d.values
}

type documentReader struct {
	values map[string]Value
	left   int
}

func (d *documentReader) readValue(pointer jsontext.Pointer, name string, raw json.RawMessage, siblings func(string) (json.RawMessage, bool), depth int) {
	if len(d.values) >= maxValues || len(raw) == 0 || depth > maxDepth {
		return
	}
	isNested := raw[0] == '{' || raw[0] == '['
	if !isNested {
		if d.left -= min(len(raw), MaxScanned); d.left < 0 {
			return
		}
	}
	d.values[string(pointer)] = Recognize(name, raw, siblings)
	switch raw[0] {
	case '{':
		var names []string
		members := map[string]json.RawMessage{}
		for m, err := range rawjson.Members(raw) {
			if err != nil {
				return
			}
			names, members[m.Name()] = append(names, m.Name()), json.RawMessage(m.Value)
		}
		find := func(name string) (json.RawMessage, bool) { found, ok := members[name]; return found, ok }
		for _, name := range names {
			d.readValue(pointer.AppendToken(name), name, members[name], find, depth+1)
		}
	case '[':
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return
		}
		for i, element := range elements {
			d.readValue(pointer.AppendToken(strconv.Itoa(i)), name, element, nil, depth+1)
		}
	}
}

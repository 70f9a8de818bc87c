package condition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// MaxDepth is the number of objects and lists within one another that conditions look into.
const MaxDepth = 100

// node is a JSON value that was decoded once for all conditions. Numbers keep their text, because their value depends on the type that the
// schema gives them.
type node struct {
	kind     jsontext.Kind  // of the value; invalid if it is bad
	bad      error          // why no condition may use the value
	text     string         // of a number
	scalar   ref.Val        // of a string, a boolean and null
	names    []string       // of an object's members
	index    map[string]int // of an object with many members
	children []*node        // members or elements

	converted atomic.Pointer[conversion]
}

const invalid = jsontext.Kind(0)

// conversion is the value of a node by a schema.
type conversion struct {
	shape *shape
	value any
}

func newBad(err error) *node { return &node{kind: invalid, bad: err} }

// decodeArguments decodes a call's arguments. What cannot be decoded becomes a bad node, which fails the conditions that touch it.
func decodeArguments(raw json.RawMessage) *node {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), rawjson.Lenient())
	n, err := readNode(decoder, 1)
	if err != nil {
		return newBad(errors.New("must be JSON"))
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return newBad(errors.New("must be one JSON value"))
	}
	if n.kind != '{' && n.kind != invalid {
		return newBad(fmt.Errorf("must be an object, not %s", n.describeKind()))
	}
	return n
}

func readNode(decoder *jsontext.Decoder, depth int) (*node, error) {
	kind := decoder.PeekKind()
	if kind == '{' || kind == '[' {
		if depth > MaxDepth {
			if err := decoder.SkipValue(); err != nil {
				return nil, err
			}
			return newBad(fmt.Errorf("is nested more than %d deep", MaxDepth)), nil
		}
		return readNested(decoder, kind, depth)
	}
	raw, err := decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return newBad(errors.New("must be valid UTF-8")), nil //nolint:nilerr // it is a bad value, which others need not touch
		}
		return &node{kind: kind, scalar: types.String(text)}, nil
	case '0':
		return &node{kind: kind, text: string(raw)}, nil
	case 't', 'f':
		return &node{kind: kind, scalar: types.Bool(kind == 't')}, nil
	default:
		return &node{kind: 'n', scalar: types.NullValue}, nil
	}
}

func readNested(decoder *jsontext.Decoder, kind jsontext.Kind, depth int) (*node, error) {
	n := &node{kind: kind}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	for end := kind + 2; decoder.PeekKind() != end; { // '}' is '{' + 2, and ']' is '[' + 2
		if kind == '{' {
			raw, err := decoder.ReadValue()
			if err != nil {
				return nil, err
			}
			n.readName(raw)
		}
		child, err := readNode(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, child)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	if n.bad != nil {
		n.kind = invalid
	}
	return n, nil
}

// readName adds the name of the next member. An invalid name makes the whole object bad.
func (n *node) readName(raw jsontext.Value) {
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	name := string(unquoted)
	if err != nil {
		n.bad = errors.New("has a name that is not valid UTF-8")
	} else if n.findMember(name) != nil {
		n.bad = errors.New("has a name twice")
	}
	n.addName(name)
}

// manyMembers is the number of members from which an object has an index.
const manyMembers = 16

func (n *node) addName(name string) {
	n.names = append(n.names, name)
	switch {
	case len(n.names) == manyMembers:
		n.index = make(map[string]int)
		for i, earlier := range n.names {
			n.index[earlier] = i
		}
	case n.index != nil:
		n.index[name] = len(n.names) - 1
	}
}

// findMember returns a member of an object, or nil.
func (n *node) findMember(name string) *node {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return n.children[i]
		}
		return nil
	}
	for i, candidate := range n.names {
		if candidate == name {
			return n.children[i]
		}
	}
	return nil
}

func (n *node) describeKind() string {
	switch n.kind {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '[':
		return "a list"
	case '{':
		return "an object"
	default:
		return "an invalid value"
	}
}

// clipText bounds a name from outside in a message.
func clipText(text string) string {
	const limit = 100
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}

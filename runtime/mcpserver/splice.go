package mcpserver

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Results and definitions pass through as their server wrote them. What
// Holdpoint adds is spliced in between; nothing is decoded and encoded again.

const (
	metaCall     = "dev.holdpoint/call"
	metaProblems = "dev.holdpoint/problems"
	metaOurs     = "dev.holdpoint/" // nobody else's
)

// errShape: not an object, or one that no reader would understand.
var errShape = errors.New("not a result object")

// shape is where things are in an object.
type shape struct {
	open, end  int  // after '{', before '}'
	empty      bool // no members
	typed      bool // has a resultType
	meta       []byte
	metaAt     int // where _meta's value begins; 0: there is none
	metaObject bool
}

// dress returns the pieces of a result: ours with what is added. A server
// that uses names of ours in its _meta loses them: what they say is ours to say.
func dress(raw []byte, addition []byte, typed bool) ([][]byte, error) {
	suspicious := bytes.Contains(raw, []byte(`"_meta"`)) || bytes.Contains(raw, []byte(`\u`))
	if addition == nil && !typed && !suspicious {
		return [][]byte{raw}, nil
	}
	at, err := shapeOf(raw)
	if err != nil {
		return nil, err
	}
	var pieces [][]byte
	rest := raw
	if typed && !at.typed {
		pieces = append(pieces, raw[:at.open], []byte(`"resultType":"complete"`))
		rest = raw[at.open:]
		if !at.empty {
			pieces = append(pieces, []byte(","))
		}
	}
	cut := func(offset int) (before []byte) { // of raw, within rest
		i := offset - (len(raw) - len(rest))
		before, rest = rest[:i], rest[i:]
		return before
	}
	switch {
	case at.metaObject:
		merged, err := mergeMeta(at.meta, addition)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, cut(at.metaAt), merged)
		cut(at.metaAt + len(at.meta))
	case addition != nil && at.metaAt > 0:
		pieces = append(pieces, cut(at.metaAt), []byte("{"), addition, []byte("}"))
		cut(at.metaAt + len(at.meta))
	case addition != nil:
		pieces = append(pieces, cut(at.end))
		if !at.empty || len(pieces) > 1 {
			pieces = append(pieces, []byte(","))
		}
		pieces = append(pieces, []byte(`"_meta":{`), addition, []byte("}"))
	}
	return append(pieces, rest), nil
}

// remark returns a result with a text of ours before all other content. One without a list of content is left as it is.
func remark(raw []byte, text string) []byte {
	at, empty := 0, true
	_, _, err := members(raw, func(name string, from, to int) error {
		if name == "content" && raw[from] == '[' {
			at, empty = from+1, len(bytes.TrimSpace(raw[from+1:to-1])) == 0
		}
		return nil
	})
	if err != nil || at == 0 {
		return raw
	}
	remarked := make([]byte, 0, len(raw)+len(text)+64)
	remarked = append(append(remarked, raw[:at]...), `{"type":"text","text":`...)
	remarked = append(appendString(remarked, text), '}')
	if !empty {
		remarked = append(remarked, ',')
	}
	return append(remarked, raw[at:]...)
}

func lenient(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// members calls visit with each member of an object: its name and where its value is.
func members(raw []byte, visit func(name string, from, to int) error) (open, end int, err error) {
	decoder := lenient(raw)
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return 0, 0, errors.Join(errShape, err)
	}
	open = int(decoder.InputOffset())
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return 0, 0, errors.Join(errShape, err)
		}
		text := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return 0, 0, errors.Join(errShape, err)
		}
		to := int(decoder.InputOffset())
		if err := visit(text, to-len(value), to); err != nil {
			return 0, 0, err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return 0, 0, errors.Join(errShape, err)
	}
	return open, int(decoder.InputOffset()) - 1, nil
}

func shapeOf(raw []byte) (shape, error) {
	at := shape{empty: true}
	var err error
	at.open, at.end, err = members(raw, func(name string, from, to int) error {
		at.empty = false
		switch {
		case name == "resultType":
			at.typed = true
		case name == "_meta" && at.metaAt > 0:
			return errShape
		case name == "_meta":
			at.metaAt, at.meta, at.metaObject = from, raw[from:to], raw[from] == '{'
		}
		return nil
	})
	return at, err
}

// mergeMeta adds a member to a _meta object, and takes out those that pose as ours.
func mergeMeta(raw, addition []byte) ([]byte, error) {
	forged, empty := false, true
	kept := []byte{'{'}
	_, end, err := members(raw, func(name string, from, to int) error {
		if strings.HasPrefix(name, metaOurs) {
			forged = true
			return nil
		}
		if !empty {
			kept = append(kept, ',')
		}
		empty = false
		kept = append(append(appendString(kept, name), ':'), raw[from:to]...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !forged {
		kept = raw[:end:end]
	}
	if addition != nil && !empty {
		kept = append(kept, ',')
	}
	return append(append(kept, addition...), '}'), nil
}

// rename gives a definition the name by which the agent knows the tool, and leaves out what is Holdpoint's own.
func rename(definition []byte, name string) ([]byte, error) {
	renamed := append(make([]byte, 0, len(definition)+len(name)), '{')
	named := false
	_, _, err := members(definition, func(member string, from, to int) error {
		value := definition[from:to]
		switch member {
		case tool.BindingMember:
			return nil
		case "name":
			named, value = true, appendString(nil, name)
		}
		if len(renamed) > 1 {
			renamed = append(renamed, ',')
		}
		renamed = append(append(appendString(renamed, member), ':'), value...)
		return nil
	})
	if err != nil || !named {
		return nil, errors.Join(errShape, err)
	}
	return append(renamed, '}'), nil
}

// appendString appends text as JSON. Bytes that are no UTF-8 are replaced, which
// is all that AppendQuote has to complain about.
func appendString(dst []byte, text string) []byte {
	quoted, _ := jsontext.AppendQuote(dst, text)
	return quoted
}

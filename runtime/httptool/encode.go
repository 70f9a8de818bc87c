package httptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
)

// argumentError: an argument cannot be sent.
type argumentError struct {
	argument, problem string
}

func (e *argumentError) Error() string {
	return fmt.Sprintf("argument %q: %s", plain.Line(e.argument, 100), e.problem)
}

func badArgument(argument, format string, args ...any) error {
	return &argumentError{argument, fmt.Sprintf(format, args...)}
}

// flatValue is an argument that a style can encode: a scalar, a list of scalars, or an object of scalars.
type flatValue struct {
	kind  jsontext.Kind // '[', '{', or the kind of a scalar
	text  string        // of a scalar
	items []string
	pairs []pair
}

// pair is a name and a value, of an object or of a request.
type pair struct {
	name, value string
}

// flatten reads an argument for a style. No style can encode a list or an object inside another.
func flatten(argument string, raw json.RawMessage) (flatValue, error) {
	v := flatValue{kind: jsontext.Value(raw).Kind()}
	switch v.kind {
	case '[':
		err := forEachElement(raw, func(element json.RawMessage) error {
			text, ok := scalarText(element)
			if !ok {
				return badArgument(argument, "is a list with lists or objects in it; want strings, numbers, true or false")
			}
			v.items = append(v.items, text)
			return nil
		})
		return v, err
	case '{':
		err := forEachMember(raw, func(name string, member json.RawMessage) error {
			text, ok := scalarText(member)
			if !ok {
				return badArgument(argument, "is an object with lists or objects in it; want strings, numbers, true or false")
			}
			v.pairs = append(v.pairs, pair{name, text})
			return nil
		})
		return v, err
	default:
		v.text, _ = scalarText(raw)
		return v, nil
	}
}

// scalarText returns the content of a string, or the notation of a number, true, false or null.
func scalarText(raw json.RawMessage) (string, bool) {
	switch jsontext.Value(raw).Kind() {
	case '[', '{':
		return "", false
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", false
		}
		return text, true
	default:
		return string(bytes.TrimSpace(raw)), true
	}
}

// forEachElement calls do for the elements of a list in order.
func forEachElement(raw json.RawMessage, do func(json.RawMessage) error) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return err
	}
	for _, element := range elements {
		if err := do(element); err != nil {
			return err
		}
	}
	return nil
}

// forEachMember calls do for the members of an object in order.
func forEachMember(raw json.RawMessage, do func(name string, member json.RawMessage) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return fmt.Errorf("want an object: %w", err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		text := name.String()
		member, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := do(text, json.RawMessage(bytes.Clone(member))); err != nil {
			return err
		}
	}
	return nil
}

// texts returns all names and values.
func (v flatValue) texts() []string {
	switch v.kind {
	case '[':
		return v.items
	case '{':
		var all []string
		for _, p := range v.pairs {
			all = append(all, p.name, p.value)
		}
		return all
	default:
		return []string{v.text}
	}
}

// isEmpty reports whether the value is an empty list or object.
func (v flatValue) isEmpty() bool {
	return v.kind == '[' && len(v.items) == 0 || v.kind == '{' && len(v.pairs) == 0
}

// operator is the way a style encodes values, in the terms of RFC 6570, section 3.2.1.
type operator struct {
	first, separator string
	named            bool
	ifEmpty          string
}

// pathOperator returns the operator of a style for paths.
func pathOperator(style string) (operator, bool) {
	switch style {
	case openapi.StyleSimple, "":
		return operator{separator: ","}, true
	case openapi.StyleLabel:
		return operator{first: ".", separator: "."}, true
	case openapi.StyleMatrix:
		return operator{first: ";", separator: ";", named: true}, true
	}
	return operator{}, false
}

// expand encodes a value as RFC 6570 does.
func (o operator) expand(name string, v flatValue, explode bool, escape func(string) string) string {
	named := func(text string) string {
		switch {
		case !o.named:
			return text
		case text == "":
			return escape(name) + o.ifEmpty
		}
		return escape(name) + "=" + text
	}
	parts := make([]string, 0, len(v.items)+2*len(v.pairs))
	switch {
	case v.kind == '[':
		for _, item := range v.items {
			parts = append(parts, escape(item))
		}
		if explode {
			for i := range parts {
				parts[i] = named(parts[i])
			}
			return o.first + strings.Join(parts, o.separator)
		}
	case v.kind == '{' && explode:
		for _, p := range v.pairs {
			parts = append(parts, escape(p.name)+"="+escape(p.value))
		}
		return o.first + strings.Join(parts, o.separator)
	case v.kind == '{':
		for _, p := range v.pairs {
			parts = append(parts, escape(p.name), escape(p.value))
		}
	default:
		parts = append(parts, escape(v.text))
	}
	return o.first + named(strings.Join(parts, ","))
}

// encodePairs encodes an argument as escaped pairs of a query, a form or a cookie.
func encodePairs(argument, name, style string, explode bool, raw json.RawMessage, escape func(string) string) ([]pair, error) {
	left := maxWritten
	if style == openapi.StyleDeepObject {
		return encodeDeepObject(argument, escapeAll(name), raw, escape, 0, &left)
	}
	v, err := flatten(argument, raw)
	if err != nil || v.isEmpty() {
		return nil, err
	}
	delimiter := ","
	switch style {
	case openapi.StyleForm, "":
	case openapi.StyleSpaceDelimited:
		delimiter = "%20"
	case openapi.StylePipeDelimited:
		delimiter = "%7C"
	default:
		return nil, fmt.Errorf("style %q is none of a query", plain.Line(style, 40))
	}
	var pairs []pair
	switch {
	case v.kind == '[' && explode:
		for _, item := range v.items {
			if left -= len(name) + len(item); left < 0 {
				return nil, tooLongError(argument)
			}
			pairs = append(pairs, pair{escapeAll(name), escape(item)})
		}
		return pairs, nil
	case v.kind == '{' && explode:
		for _, p := range v.pairs {
			pairs = append(pairs, pair{escapeAll(p.name), escape(p.value)})
		}
		return pairs, nil
	}
	texts := v.texts()
	for i := range texts {
		texts[i] = escape(texts[i])
	}
	return []pair{{escapeAll(name), strings.Join(texts, delimiter)}}, nil
}

// maxWritten bounds the encoded form of one argument, in bytes: the name is repeated for each value.
const maxWritten = 4 << 20

func tooLongError(argument string) error {
	return badArgument(argument, "makes more than %d MiB of a request", maxWritten>>20)
}

// maxDeep bounds the nesting of an argument of style deepObject.
const maxDeep = 8

// encodeDeepObject encodes name[key]=value. OpenAPI does not define deeper levels: they become name[key][key] for objects and name[key][0] for lists.
func encodeDeepObject(argument, name string, raw json.RawMessage, escape func(string) string, depth int, left *int) ([]pair, error) {
	if depth > maxDeep {
		return nil, badArgument(argument, "is nested more than %d deep", maxDeep)
	}
	var pairs []pair
	below := func(key string, member json.RawMessage) error {
		deeper, err := encodeDeepObject(argument, name+"%5B"+escapeAll(key)+"%5D", member, escape, depth+1, left)
		pairs = append(pairs, deeper...)
		return err
	}
	switch jsontext.Value(raw).Kind() {
	case '{':
		err := forEachMember(raw, below)
		return pairs, err
	case '[':
		i := -1
		err := forEachElement(raw, func(element json.RawMessage) error {
			i++
			return below(strconv.Itoa(i), element)
		})
		return pairs, err
	default:
		text, _ := scalarText(raw)
		if *left -= len(name) + len(text); *left < 0 {
			return nil, tooLongError(argument)
		}
		return []pair{{name, escape(text)}}, nil
	}
}

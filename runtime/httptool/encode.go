package httptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
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

// flattenArgument reads an argument for a style. No style can encode a list or an object inside another.
func flattenArgument(argument string, raw json.RawMessage) (flatValue, error) {
	v := flatValue{kind: jsontext.Value(raw).Kind()}
	switch v.kind {
	case '[':
		elements, err := readList(raw)
		for _, element := range elements {
			text, ok := scalarText(element)
			if !ok {
				return v, badArgument(argument, "must be a list of strings, numbers, true or false")
			}
			v.items = append(v.items, text)
		}
		return v, err
	case '{':
		for m, err := range rawjson.Members(raw) {
			if err != nil {
				return v, err
			}
			text, ok := scalarText(json.RawMessage(m.Value))
			if !ok {
				return v, badArgument(argument, "must be an object of strings, numbers, true or false")
			}
			v.pairs = append(v.pairs, pair{m.Name(), text})
		}
		return v, nil
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

// readList returns the elements of a list.
func readList(raw json.RawMessage) (elements []json.RawMessage, err error) {
	err = json.Unmarshal(raw, &elements)
	return elements, err
}

// allTexts returns all names and values.
func (v flatValue) allTexts() []string {
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

// expandValue encodes a value as RFC 6570 does.
func (o operator) expandValue(name string, v flatValue, explode bool, escape func(string) string) string {
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
	v, err := flattenArgument(argument, raw)
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
	texts := v.allTexts()
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
		return nil, badArgument(argument, "must be nested at most %d deep", maxDeep)
	}
	var pairs []pair
	below := func(key string, member json.RawMessage) error {
		deeper, err := encodeDeepObject(argument, name+"%5B"+escapeAll(key)+"%5D", member, escape, depth+1, left)
		pairs = append(pairs, deeper...)
		return err
	}
	switch jsontext.Value(raw).Kind() {
	case '{':
		for m, err := range rawjson.Members(raw) {
			if err == nil {
				err = below(m.Name(), json.RawMessage(m.Value))
			}
			if err != nil {
				return nil, err
			}
		}
		return pairs, nil
	case '[':
		elements, err := readList(raw)
		for i := 0; i < len(elements) && err == nil; i++ {
			err = below(strconv.Itoa(i), elements[i])
		}
		return pairs, err
	default:
		text, _ := scalarText(raw)
		if *left -= len(name) + len(text); *left < 0 {
			return nil, tooLongError(argument)
		}
		return []pair{{name, escape(text)}}, nil
	}
}

package httptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// argumentError says which argument cannot be sent, and what was expected of it.
type argumentError struct {
	argument, problem string
}

func (e *argumentError) Error() string {
	return fmt.Sprintf("argument %q: %s", plain.Line(e.argument, 100), e.problem)
}

func badArgument(argument, format string, args ...any) error {
	return &argumentError{argument, fmt.Sprintf(format, args...)}
}

// styled is an argument as styles write it: a scalar, a list of scalars, or an object of scalars.
type styled struct {
	kind  jsontext.Kind // '[', '{', or that of a scalar
	text  string        // of a scalar
	items []string
	pairs []pair
}

// pair is a name and a value, of an object or of what is sent.
type pair struct {
	name, value string
}

// flat reads an argument for a style, none of which can write what is within a list or an object.
func flat(argument string, raw json.RawMessage) (styled, error) {
	v := styled{kind: jsontext.Value(raw).Kind()}
	switch v.kind {
	case '[':
		err := eachElement(raw, func(element json.RawMessage) error {
			text, ok := scalar(element)
			if !ok {
				return badArgument(argument, "is a list with lists or objects in it; want strings, numbers, true or false")
			}
			v.items = append(v.items, text)
			return nil
		})
		return v, err
	case '{':
		err := eachMember(raw, func(name string, member json.RawMessage) error {
			text, ok := scalar(member)
			if !ok {
				return badArgument(argument, "is an object with lists or objects in it; want strings, numbers, true or false")
			}
			v.pairs = append(v.pairs, pair{name, text})
			return nil
		})
		return v, err
	default:
		v.text, _ = scalar(raw)
		return v, nil
	}
}

// scalar is a string's text, or a number, true, false or null as it is written.
func scalar(raw json.RawMessage) (string, bool) {
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

func eachElement(raw json.RawMessage, do func(json.RawMessage) error) error {
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

// eachMember calls do for the members of an object, in their order.
func eachMember(raw json.RawMessage, do func(name string, member json.RawMessage) error) error {
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

// texts are all that of a value comes from outside.
func (v styled) texts() []string {
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

// empty reports whether there is nothing to write: a list or an object without anything in it.
func (v styled) empty() bool {
	return v.kind == '[' && len(v.items) == 0 || v.kind == '{' && len(v.pairs) == 0
}

// operator is how a style writes values, in the words of RFC 6570, section 3.2.1.
type operator struct {
	first, separator string
	named            bool
	ifEmpty          string
}

// The operators of the styles of paths and headers.
func operatorOf(style string) (operator, bool) {
	switch style {
	case StyleSimple, "":
		return operator{separator: ","}, true
	case StyleLabel:
		return operator{first: ".", separator: "."}, true
	case StyleMatrix:
		return operator{first: ";", separator: ";", named: true}, true
	}
	return operator{}, false
}

// expand writes a value as RFC 6570 does.
func (o operator) expand(name string, v styled, explode bool, escape func(string) string) string {
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

// queryPairs writes an argument as the pairs of a query, a form or a cookie, already escaped.
func queryPairs(argument, name, style string, explode bool, raw json.RawMessage, escape func(string) string) ([]pair, error) {
	left := maxWritten
	if style == StyleDeepObject {
		return deepPairs(argument, escapeAll(name), raw, escape, 0, &left)
	}
	v, err := flat(argument, raw)
	if err != nil || v.empty() {
		return nil, err
	}
	delimiter := ","
	switch style {
	case StyleForm, "":
	case StyleSpaceDelimited:
		delimiter = "%20"
	case StylePipeDelimited:
		delimiter = "%7C"
	default:
		return nil, fmt.Errorf("style %q is none of a query", plain.Line(style, 40))
	}
	var pairs []pair
	switch {
	case v.kind == '[' && explode:
		for _, item := range v.items {
			if left -= len(name) + len(item); left < 0 {
				return nil, tooMuch(argument)
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

// maxWritten bounds what one argument is written as, in bytes: names are repeated for each of many values.
const maxWritten = 4 << 20

func tooMuch(argument string) error {
	return badArgument(argument, "makes more than %d MiB of a request", maxWritten>>20)
}

// maxDeep bounds how deep an argument of style deepObject is.
const maxDeep = 8

// deepPairs writes name[key]=value. OpenAPI says nothing of what is deeper: objects go on as name[key][key], lists as name[key][0].
func deepPairs(argument, name string, raw json.RawMessage, escape func(string) string, depth int, left *int) ([]pair, error) {
	if depth > maxDeep {
		return nil, badArgument(argument, "is nested more than %d deep", maxDeep)
	}
	var pairs []pair
	below := func(key string, member json.RawMessage) error {
		deeper, err := deepPairs(argument, name+"%5B"+escapeAll(key)+"%5D", member, escape, depth+1, left)
		pairs = append(pairs, deeper...)
		return err
	}
	switch jsontext.Value(raw).Kind() {
	case '{':
		err := eachMember(raw, below)
		return pairs, err
	case '[':
		i := -1
		err := eachElement(raw, func(element json.RawMessage) error {
			i++
			return below(strconv.Itoa(i), element)
		})
		return pairs, err
	default:
		text, _ := scalar(raw)
		if *left -= len(name) + len(text); *left < 0 {
			return nil, tooMuch(argument)
		}
		return []pair{{name, escape(text)}}, nil
	}
}

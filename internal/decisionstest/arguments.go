package decisionstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// object is a JSON object with its members in order. Values are nil, bool, string, int, money, object, []string and []any.
type object []member

type member struct {
	name  string
	value any
}

// money is an amount in cents.
type money int64

// get returns the value of a member, or nil.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// with returns a copy that has a member.
func (o object) with(name string, value any) object {
	o = slices.Clone(o)
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

// sort returns a copy whose members are in the order of names.
func (o object) sort(names []string) object {
	return slices.SortedStableFunc(slices.Values(o), func(a, b member) int {
		return slices.Index(names, a.name) - slices.Index(names, b.name)
	})
}

// writing is how a model wrote its arguments.
type writing struct {
	cents    bool  // 12.50 instead of 12.5, and 12.00 instead of 12
	ascii    bool  // other characters as escapes
	shuffled []int // ranks of the first members; nil for their usual order
}

// drawWriting draws how an agent writes a call. Each agent has a usual way, and leaves it now and then.
func (m *month) drawWriting(agent string) writing {
	w := writing{cents: agent == "billing" || agent == "marketing", ascii: agent == "nightly"}
	if m.IntN(12) == 0 {
		w.cents = !w.cents
	}
	if m.IntN(25) == 0 {
		w.ascii = !w.ascii
	}
	if m.IntN(14) == 0 {
		w.shuffled = m.Perm(16)
	}
	return w
}

func (o object) encode(w writing) json.RawMessage {
	if w.shuffled != nil && len(o) <= len(w.shuffled) {
		shuffled := make(object, 0, len(o))
		for _, at := range w.shuffled {
			if at < len(o) {
				shuffled = append(shuffled, o[at])
			}
		}
		o = shuffled
	}
	return encodeValue(nil, o, w)
}

func encodeValue(b []byte, value any, w writing) []byte {
	switch v := value.(type) {
	case object:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(encodeString(b, m.name, w), ':')
			b = encodeValue(b, m.value, w)
		}
		return append(b, '}')
	case []any:
		return encodeList(b, v, w)
	case []string:
		return encodeList(b, v, w)
	case string:
		return encodeString(b, v, w)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case money:
		return append(b, v.format(w)...)
	case bool:
		return strconv.AppendBool(b, v)
	case nil:
		return append(b, "null"...)
	default:
		panic(fmt.Sprintf("arguments: %T has no form in JSON", value))
	}
}

func encodeList[T any](b []byte, values []T, w writing) []byte {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = encodeValue(b, v, w)
	}
	return append(b, ']')
}

func (v money) format(w writing) string {
	text := fmt.Sprintf("%d.%02d", v/100, v%100)
	switch {
	case w.cents:
		return text
	case v%100 == 0:
		return text[:len(text)-3]
	case v%10 == 0:
		return text[:len(text)-1]
	}
	return text
}

func encodeString(b []byte, text string, w writing) []byte {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // strings always have a form
	}
	encoded := bytes.TrimSuffix(plain.Bytes(), []byte("\n"))
	if !w.ascii {
		return append(b, encoded...)
	}
	for _, r := range string(encoded) {
		if r < utf8.RuneSelf {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}

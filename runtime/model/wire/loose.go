package wire

import "encoding/json"

// Loose is a member of a server's JSON. Its value is the zero value if the member is missing, null, or of another type than T.
type Loose[T any] struct {
	Value T
	Valid bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Loose[T]) UnmarshalJSON(data []byte) error {
	var value T
	if string(data) != "null" && json.Unmarshal(data, &value) == nil {
		l.Value, l.Valid = value, true
	}
	return nil
}

// Number returns n without its fraction and within bounds, so that sums of a few cannot overflow. It returns 0 for no number.
func Number(n json.Number) int64 {
	const most = 1 << 53
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return int64(max(-most, min(f, most)))
}

// LooseText is the text of a member, by [TextOf].
type LooseText string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *LooseText) UnmarshalJSON(data []byte) error {
	*t = LooseText(TextOf(data))
	return nil
}

// TextOf returns a string, or the JSON text of another value. It returns "" if the value is missing or null.
func TextOf(value json.RawMessage) string {
	var text string
	if len(value) > 0 && json.Unmarshal(value, &text) != nil { // null is ""
		return string(value)
	}
	return text
}

package hostile

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxIndent bounds how far lines of deep documents move to the right.
const maxIndent = 20

// Line is one line of a pretty-printed document: Indent, then the member's
// name, then the value or a bracket, then what closes the line.
type Line struct {
	Depth int
	Name  *Value // with its quotes; nil: there is none
	Value *Value // a string with its quotes, a number, a literal; nil: only brackets
	Open  string // { or [ or {} or []
	Close string // } or ]
	Comma bool

	whole string // what tells it from other lines, with nothing left out
}

// Indent is the white space that the line begins with.
func (l Line) Indent() string { return strings.Repeat("  ", min(l.Depth, maxIndent)) }

// Pretty is a pretty-printed document.
type Pretty struct {
	Lines  []Line
	More   int // lines left out
	Folded bool
	Findings
}

// ReadPretty prints a document, token by token: nothing is decoded but
// strings, whose hidden characters are to be seen.
func ReadPretty(document []byte, l Limits) (Pretty, error) {
	r := newPrettyReader(document, l)
	err := r.value(0, nil)
	return r.pretty, err
}

// Find counts what is to be found in a document, without keeping it.
func Find(document []byte) (Findings, error) {
	l := Folded()
	l.JSONLines = 1
	r := newPrettyReader(document, l)
	r.all = true
	err := r.value(0, nil)
	return r.pretty.Findings, err
}

type prettyReader struct {
	decoder *jsontext.Decoder
	limits  Limits
	split   bool   // strings of several lines are several lines
	most    int    // lines; more are ErrUnwieldy. Zero: any number
	all     bool   // findings are those of all lines, not only of the ones that are shown
	name    string // of the member whose value comes next
	pretty  Pretty

	document []byte
	secrets  map[int64]secretAt // by their end
}

func newPrettyReader(document []byte, l Limits) *prettyReader {
	return &prettyReader{decoder: newDecoder(document), limits: l, document: document, secrets: l.Secrets.byEnd(document, 0)}
}

func (r *prettyReader) value(depth int, name *Value) error {
	switch r.decoder.PeekKind() {
	case '{':
		return r.nested(depth, name, "{", "}", r.member)
	case '[':
		return r.nested(depth, name, "[", "]", func(depth int) error { return r.value(depth, nil) })
	default:
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	if r.most > 0 && len(r.pretty.Lines) >= r.most {
		return ErrUnwieldy
	}
	if secret, ok := r.secrets[r.decoder.InputOffset()]; ok {
		r.line(Line{Depth: depth, Name: name, Value: &Value{Head: []Piece{secret.piece(r.document)}}, whole: string(raw)})
		return nil
	}
	if raw.Kind() == '"' {
		return r.text(depth, name, unquote(raw))
	}
	if r.full() && (!r.all || len(raw) < shortValue) { // no trick fits into a short number
		r.leaveOut()
		return nil
	}
	value := Fold(string(raw), r.limits)
	r.line(Line{Depth: depth, Name: name, Value: &value, whole: string(raw)})
	return nil
}

// text is a string, on one line or on as many as it has.
func (r *prettyReader) text(depth int, name *Value, text string) error {
	if r.full() && !r.all {
		r.leaveOut()
		return nil
	}
	if r.split && r.most > 0 && len(r.pretty.Lines)+strings.Count(text, "\n") >= r.most {
		return ErrUnwieldy
	}
	parts := []string{text}
	if r.split {
		parts = strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		parts[len(parts)-1] += text[len(strings.TrimSuffix(text, "\n")):]
	}
	if len(parts) == 1 {
		value := foldQuoted(text, r.limits)
		r.line(Line{Depth: depth, Name: name, Value: &value, whole: quote(text)})
		return nil
	}
	r.line(Line{Depth: depth, Name: name, Open: `"`, whole: `"`})
	for _, part := range parts {
		value := Fold(part, r.limits)
		escape(value.Head)
		escape(value.Tail)
		r.line(Line{Depth: depth + 1, Value: &value, whole: part})
	}
	r.line(Line{Depth: depth, Close: `"`, whole: `"`})
	return nil
}

func (r *prettyReader) nested(depth int, name *Value, open, end string, element func(int) error) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	if r.most > 0 && len(r.pretty.Lines) >= r.most {
		return ErrUnwieldy
	}
	if closes(r.decoder.PeekKind()) {
		r.line(Line{Depth: depth, Name: name, Open: open + end})
		_, err := r.decoder.ReadToken()
		return err
	}
	r.line(Line{Depth: depth, Name: name, Open: open})
	for !closes(r.decoder.PeekKind()) {
		if err := element(depth + 1); err != nil {
			return err
		}
		if n := len(r.pretty.Lines); n > 0 && !closes(r.decoder.PeekKind()) {
			r.pretty.Lines[n-1].Comma = true
		}
	}
	r.line(Line{Depth: depth, Close: end})
	_, err := r.decoder.ReadToken()
	return err
}

func closes(k jsontext.Kind) bool { return k == '}' || k == ']' }

func (r *prettyReader) member(depth int) error {
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	r.name = unquote(raw)
	if r.full() && !r.all {
		return r.value(depth, nil)
	}
	name := foldQuoted(r.name, r.limits)
	return r.value(depth, &name)
}

func (r *prettyReader) line(l Line) {
	if l.Name != nil {
		l.whole = quote(r.name) + ": " + l.whole
	}
	if r.full() {
		r.leaveOut()
		if r.all {
			r.find(l)
		}
		return
	}
	r.pretty.Lines = append(r.pretty.Lines, l)
	r.find(l)
}

// full reports whether no more lines are shown.
func (r *prettyReader) full() bool {
	return r.limits.JSONLines > 0 && len(r.pretty.Lines) >= r.limits.JSONLines
}

func (r *prettyReader) leaveOut() {
	r.pretty.More++
	r.pretty.Folded = true
}

func (r *prettyReader) find(l Line) {
	for _, v := range []*Value{l.Name, l.Value} {
		if v != nil {
			r.pretty.add(*v)
			r.pretty.Folded = r.pretty.Folded || v.Cut != nil
		}
	}
}

// foldQuoted shows a string as JSON writes it.
func foldQuoted(text string, l Limits) Value {
	if text == "" {
		return Value{Head: []Piece{{Kind: Plain, Text: `""`, Count: 1}}}
	}
	v := Fold(text, l)
	mark := Piece{Kind: Plain, Text: `"`, Count: 1}
	end := &v.Head
	if v.Cut != nil {
		end = &v.Tail
	}
	escape(v.Head)
	escape(v.Tail)
	*end = append(*end, mark)
	v.Head = append([]Piece{mark}, v.Head...)
	return v
}

func escape(pieces []Piece) {
	for i := range pieces {
		if pieces[i].Kind == Plain {
			pieces[i].Text = escaped.Replace(pieces[i].Text)
		}
	}
}

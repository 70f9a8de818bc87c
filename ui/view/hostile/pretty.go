package hostile

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// maxIndent limits the indent of lines, in steps.
const maxIndent = 20

// Line is a line of a pretty-printed document: the indent, the name of the member, the value or a bracket, the closing bracket, a comma.
type Line struct {
	Depth int
	Name  *Value // with its quotes; nil: there is none
	Value *Value // a string with its quotes, a number, a literal; nil: only brackets
	Open  string // { or [ or {} or []
	Close string // } or ]
	Comma bool

	whole string // uncut, for comparison with other lines
}

// Indent returns the white space at the begin of the line.
func (l Line) Indent() string { return strings.Repeat("  ", min(l.Depth, maxIndent)) }

// Pretty is a pretty-printed document.
type Pretty struct {
	Lines  []Line
	More   int // lines left out
	Folded bool
	Findings
}

// ReadPretty prints a document, token by token. It decodes only strings, to show their invisible characters.
func ReadPretty(document []byte, l Limits) (Pretty, error) {
	r := newPrettyReader(document, l)
	err := r.readValue(0, nil)
	return r.pretty, err
}

// Find counts the findings of a document.
func Find(document []byte) (Findings, error) {
	l := Folded()
	l.JSONLines = 1
	r := newPrettyReader(document, l)
	r.all = true
	err := r.readValue(0, nil)
	return r.pretty.Findings, err
}

type prettyReader struct {
	decoder *jsontext.Decoder
	limits  Limits
	split   bool   // strings of several lines are several lines
	most    int    // lines; more are ErrUnwieldy. Zero: any number
	all     bool   // count the findings of all lines, not only of those that are shown
	name    string // of the member whose value comes next
	pretty  Pretty

	document []byte
	secrets  map[int64]secretfield.Field // by their end
}

func newPrettyReader(document []byte, l Limits) *prettyReader {
	return &prettyReader{decoder: newDecoder(document), limits: l, document: document, secrets: secretsByEnd(l.Secrets, document, 0)}
}

func (r *prettyReader) readValue(depth int, name *Value) error {
	switch r.decoder.PeekKind() {
	case '{':
		return r.readNested(depth, name, "{", "}", r.readMember)
	case '[':
		return r.readNested(depth, name, "[", "]", func(depth int) error { return r.readValue(depth, nil) })
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
		r.addLine(Line{Depth: depth, Name: name, Value: &Value{Head: []Piece{makeSecretPiece(secret, r.document)}}, whole: string(raw)})
		return nil
	}
	if raw.Kind() == '"' {
		return r.addText(depth, name, rawjson.Unquote(raw))
	}
	if r.isFull() && (!r.all || len(raw) < shortValue) { // a short number cannot contain a trick
		r.leaveOut()
		return nil
	}
	value := Fold(string(raw), r.limits)
	r.addLine(Line{Depth: depth, Name: name, Value: &value, whole: string(raw)})
	return nil
}

// addText adds a string, on one line or split into its lines.
func (r *prettyReader) addText(depth int, name *Value, text string) error {
	if r.isFull() && !r.all {
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
		r.addLine(Line{Depth: depth, Name: name, Value: &value, whole: quoteJSON(text)})
		return nil
	}
	r.addLine(Line{Depth: depth, Name: name, Open: `"`, whole: `"`})
	for _, part := range parts {
		value := Fold(part, r.limits)
		escapePieces(value.Head)
		escapePieces(value.Tail)
		r.addLine(Line{Depth: depth + 1, Value: &value, whole: part})
	}
	r.addLine(Line{Depth: depth, Close: `"`, whole: `"`})
	return nil
}

func (r *prettyReader) readNested(depth int, name *Value, open, end string, element func(int) error) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	if r.most > 0 && len(r.pretty.Lines) >= r.most {
		return ErrUnwieldy
	}
	if isClosing(r.decoder.PeekKind()) {
		r.addLine(Line{Depth: depth, Name: name, Open: open + end})
		_, err := r.decoder.ReadToken()
		return err
	}
	r.addLine(Line{Depth: depth, Name: name, Open: open})
	for !isClosing(r.decoder.PeekKind()) {
		if err := element(depth + 1); err != nil {
			return err
		}
		if n := len(r.pretty.Lines); n > 0 && !isClosing(r.decoder.PeekKind()) {
			r.pretty.Lines[n-1].Comma = true
		}
	}
	r.addLine(Line{Depth: depth, Close: end})
	_, err := r.decoder.ReadToken()
	return err
}

func isClosing(k jsontext.Kind) bool { return k == '}' || k == ']' }

func (r *prettyReader) readMember(depth int) error {
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	r.name = rawjson.Unquote(raw)
	if r.isFull() && !r.all {
		return r.readValue(depth, nil)
	}
	name := foldQuoted(r.name, r.limits)
	return r.readValue(depth, &name)
}

func (r *prettyReader) addLine(l Line) {
	if l.Name != nil {
		l.whole = quoteJSON(r.name) + ": " + l.whole
	}
	if r.isFull() {
		r.leaveOut()
		if r.all {
			r.countFindings(l)
		}
		return
	}
	r.pretty.Lines = append(r.pretty.Lines, l)
	r.countFindings(l)
}

// isFull reports whether the limit of lines is reached.
func (r *prettyReader) isFull() bool {
	return r.limits.JSONLines > 0 && len(r.pretty.Lines) >= r.limits.JSONLines
}

func (r *prettyReader) leaveOut() {
	r.pretty.More++
	r.pretty.Folded = true
}

func (r *prettyReader) countFindings(l Line) {
	for _, v := range []*Value{l.Name, l.Value} {
		if v != nil {
			r.pretty.addValue(*v)
			r.pretty.Folded = r.pretty.Folded || v.Cut != nil
		}
	}
}

// foldQuoted shows a string with quotes and escapes.
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
	escapePieces(v.Head)
	escapePieces(v.Tail)
	*end = append(*end, mark)
	v.Head = append([]Piece{mark}, v.Head...)
	return v
}

func escapePieces(pieces []Piece) {
	for i := range pieces {
		if pieces[i].Kind == Plain {
			pieces[i].Text = jsonEscapes.Replace(pieces[i].Text)
		}
	}
}

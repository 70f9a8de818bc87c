package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text"
)

// Form is a form of fields, with what was wrong with it when it was sent before.
type Form struct {
	Name     string // data-testid
	Action   string
	Send     text.Message // the word on its button
	Cancel   string       // URL
	Problems []FormProblem
	Revision string // of what is changed; empty: something new is made
	Parts    []FormPart
	Note     text.Message // beside the button
	Files    bool         // it sends files, and texts that are as long
}

// encoding is how a form is sent: one with files in parts, by which long texts grow least too.
func (f Form) encoding() templ.Attributes {
	if f.Files {
		return templ.Attributes{"enctype": "multipart/form-data"}
	}
	return templ.Attributes{}
}

// FormProblem is one thing that is wrong with what was sent.
type FormProblem struct {
	Field string // its id; empty: none of the page
	Text  text.Message
}

// FormPart is a part of a form under a title of its own.
type FormPart struct {
	Title  text.Message
	Words  text.Message
	Folded bool // it is opened by whoever needs it
	Fields []Field
}

// FieldKind says what a field looks like.
type FieldKind string

// The kinds of fields.
const (
	FieldLine   FieldKind = "line"
	FieldArea   FieldKind = "area"
	FieldCheck  FieldKind = "check"
	FieldSelect FieldKind = "select"
	FieldSecret FieldKind = "secret" // what is in it is never sent to the browser
	FieldSealed FieldKind = "sealed" // likewise, of several lines
	FieldPairs  FieldKind = "pairs"  // names with secret values
	FieldNames  FieldKind = "names"  // some of a list
	FieldHidden FieldKind = "hidden" // what the form is about
	FieldFile   FieldKind = "file"   // of this computer
)

// Field is one field of a form.
type Field struct {
	Name     string
	Label    text.Message
	Kind     FieldKind
	Value    string
	On       bool // of a check
	Choices  []Choice
	Pairs    []Pair
	Hint     text.Message
	Example  string
	Problem  text.Message
	Now      *NowValue // nil: it has the value that is saved
	Required bool
	Code     bool
	Rows     int
}

// NowValue is what somebody else saved meanwhile, in words.
type NowValue struct{ Text text.Message }

// Choice is one of the values of a field.
type Choice struct {
	Value string
	Word  text.Message
	On    bool
	Hint  text.Message
}

// Pair is a name with a secret value.
type Pair struct {
	Name    string
	Kept    bool // it has a value already
	Removed bool // the box to remove it is ticked
	Problem string
}

func (f Field) id() string { return "f-" + f.Name }

// describedBy names what is said of a field, for whoever hears the page.
func (f Field) describedBy() string {
	id := ""
	if !f.Problem.IsZero() {
		id = f.id() + "-problem "
	}
	if f.Now != nil {
		id += f.id() + "-now "
	}
	if !f.Hint.IsZero() {
		id += f.id() + "-hint"
	}
	return strings.TrimSpace(id)
}

// pairID is the id of what is said of one of the pairs.
func (f Field) pairID(i int) string { return f.id() + "-problem-" + strconv.Itoa(i) }

// pairAttributes are those of the inputs of one of the pairs.
func (f Field) pairAttributes(i int) templ.Attributes {
	ids := f.describedBy()
	if f.Pairs[i].Problem != "" {
		ids = strings.TrimSpace(f.pairID(i) + " " + ids)
	}
	a := templ.Attributes{}
	if ids != "" {
		a["aria-describedby"] = ids
	}
	if f.Pairs[i].Problem != "" || !f.Problem.IsZero() {
		a["aria-invalid"] = "true"
	}
	return a
}

// choiceDescribedBy names what is said of one of the names.
func (f Field) choiceDescribedBy(i int) string {
	return strings.TrimSpace(f.id() + strconv.Itoa(i) + " " + f.describedBy())
}

// label labels the value of a pair for screen readers.
func (p Pair) label(i int) text.Message {
	if p.Name != "" {
		return text.FormPairValueOf(p.Name)
	}
	return text.FormPairValueNumber(i + 1)
}

// FieldID is the id by which a problem refers to a field.
func FieldID(name string) string { return Field{Name: name}.id() }

// Crumb is a step of the way to a page.
type Crumb struct {
	URL  string // empty: the page itself
	Word text.Message
}

// attributes are those that all inputs have.
func (f Field) attributes() templ.Attributes {
	a := templ.Attributes{}
	if f.Required {
		a["required"] = true
	}
	if !f.Problem.IsZero() {
		a["aria-invalid"] = "true"
	}
	if ids := f.describedBy(); ids != "" {
		a["aria-describedby"] = ids
	}
	return a
}

// text is a text as a textarea keeps it: the first line break after the tag is not part of it.
func (f Field) text() string {
	if strings.HasPrefix(f.Value, "\n") {
		return "\n" + f.Value
	}
	return f.Value
}

// asksForLook reports whether something in a folded part is set or wrong.
func (p FormPart) asksForLook() bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool {
		set := f.Value != ""
		if f.Kind == FieldSelect {
			set = f.Value != f.Choices[0].Value
		}
		return set || !f.Problem.IsZero() || f.Now != nil || slices.ContainsFunc(f.Pairs, func(p Pair) bool { return p.Name != "" })
	})
}

func (p Pair) placeholder() text.Message {
	if p.Kept {
		return text.FormPairKept()
	}
	return text.FormPairValue()
}

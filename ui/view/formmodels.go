package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text"
)

// Form is a form of fields, with the problems of its last submission.
type Form struct {
	Name     string // data-testid
	Action   string
	Send     text.Message // the label of its button
	Cancel   string       // URL
	Problems []FormProblem
	Revision string // of the edited object; empty for a new one
	Parts    []FormPart
	Note     text.Message    // beside the button
	Check    *FormCheck      // nil: it can only be sent
	Buttons  []FormButton    // beside its own
	Lead     templ.Component // above the fields; nil: nothing
	Ready    bool            // it can be sent as it is: its button gets the focus
	Files    bool            // it sends files, or texts of that size
}

// encodingAttribute selects multipart for a form with files. Long texts grow least with it, too.
func (f Form) encodingAttribute() templ.Attributes {
	if f.Files {
		return templ.Attributes{"enctype": "multipart/form-data"}
	}
	return templ.Attributes{}
}

// FormButton sends the fields of a form to another address.
type FormButton struct {
	Name  string // data-testid
	URL   string
	Label text.Message
}

// FormCheck checks a form without saving it: with a button, and while it is typed if scripts run. The answer takes the place of the content
// below a field.
type FormCheck struct {
	URL   string
	Label text.Message
	Field string
}

// checkAttributes make the form check itself while it is typed.
func (f Form) checkAttributes(nonce string) templ.Attributes {
	if f.Check == nil {
		return templ.Attributes{}
	}
	return templ.Attributes{
		"hx-post": f.Check.URL, "hx-trigger": "input delay:400ms", "hx-target": "#" + Field{Name: f.Check.Field}.belowID(), "hx-swap": "innerMorph",
		"hx-sync": "this:replace", "hx-nonce": nonce,
	}
}

// FormProblem is one problem of a submitted form.
type FormProblem struct {
	Field string // its ID; empty: no field of the page
	Text  text.Message
}

// FormPart is a part of a form with its own title.
type FormPart struct {
	Title  text.Message
	Words  text.Message
	Folded bool // closed at first
	Fields []Field
	For    string // a value of another part's choice: pages hide the part for other values; empty: never
}

// FieldKind is the kind of a field.
type FieldKind string

// The kinds of fields.
const (
	FieldLine   FieldKind = "line"
	FieldArea   FieldKind = "area"
	FieldCheck  FieldKind = "check"
	FieldSelect FieldKind = "select"
	FieldSecret FieldKind = "secret" // its value is never sent to the browser
	FieldSealed FieldKind = "sealed" // a secret of several lines
	FieldPairs  FieldKind = "pairs"  // names with secret values
	FieldNames  FieldKind = "names"  // a selection of a list
	FieldHidden FieldKind = "hidden" // identifies the subject of the form
	FieldFile   FieldKind = "file"   // an upload
	FieldList   FieldKind = "list"   // names, with suggestions; those of Choices that are on, and empty ones
)

// Field is one field of a form.
type Field struct {
	Name     string
	Label    text.Message
	Kind     FieldKind
	Value    string
	On       bool // for a check
	Choices  []Choice
	Pairs    []Pair
	Hint     text.Message
	Example  string
	Problem  text.Message
	Now      *NowValue // nil: the saved value has not changed meanwhile
	For      string    // values of the part's select field for which the field is shown, separated by spaces; empty: all
	Required bool
	Code     bool
	Rows     int
	Below    templ.Component // nil: nothing
	Invalid  bool            // Below says why
	Complete string          // the ID of a list of words that complete the text while it is typed; empty: none
}

// NowValue is the value that another person saved meanwhile.
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

// describedBy returns the IDs of the notes on a field, for screen readers.
func (f Field) describedBy() string {
	id := ""
	if !f.Problem.IsZero() {
		id = f.id() + "-problem "
	}
	if f.Now != nil {
		id += f.id() + "-now "
	}
	if f.Below != nil {
		id += f.belowID() + " "
	}
	if !f.Hint.IsZero() {
		id += f.id() + "-hint"
	}
	return strings.TrimSpace(id)
}

// belowID returns the ID of the content below a field.
func (f Field) belowID() string { return f.id() + "-below" }

// pairID returns the ID of the problem of a pair.
func (f Field) pairID(i int) string { return f.id() + "-problem-" + strconv.Itoa(i) }

// pairAttributes returns the attributes of the inputs of a pair.
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

// choiceDescribedBy returns the IDs of the notes on a choice.
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

// FieldID returns the ID by which a problem refers to a field.
func FieldID(name string) string { return Field{Name: name}.id() }

// Crumb is a step on the path to a page.
type Crumb struct {
	URL  string // empty: the page itself
	Word text.Message
}

// inputAttributes returns the attributes that all inputs have.
func (f Field) inputAttributes() templ.Attributes {
	a := templ.Attributes{}
	if f.Required {
		a["required"] = true
	}
	if !f.Problem.IsZero() || f.Invalid {
		a["aria-invalid"] = "true"
	}
	if ids := f.describedBy(); ids != "" {
		a["aria-describedby"] = ids
	}
	if f.Complete != "" {
		a["data-complete"], a["aria-autocomplete"] = f.Complete, "list"
	}
	return a
}

// listNames returns the names of a list, and empty ones for more.
func (f Field) listNames() []string {
	var names []string
	for _, c := range f.Choices {
		if c.On {
			names = append(names, c.Value)
		}
	}
	return append(names, make([]string, spareNames)...)
}

// areaText returns the value for a text area, which drops a line break after its tag.
func (f Field) areaText() string {
	if strings.HasPrefix(f.Value, "\n") {
		return "\n" + f.Value
	}
	return f.Value
}

// needsAttention reports whether a field in a folded part is set or has a problem.
func (p FormPart) needsAttention() bool {
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

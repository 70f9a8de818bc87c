// Package section reads the sections of the catalog of texts: YAML files in which each key has a text.
package section

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Text is a text with its plural forms.
type Text struct {
	Name      string
	Arguments []Argument // in the order of the form "other"
	Forms     []Form
}

// Form is a plural form of a text.
type Form struct {
	Name  string // such as "one"
	Parts []Part
	Text  string // as the file has it
}

// Part is a piece of a text: literal characters, or an argument.
type Part struct {
	Literal  string
	Argument string // its name, if it is one
}

// Kind says of which type an argument is.
type Kind string

// The kinds of arguments.
const (
	String    Kind = ""
	Count     Kind = "count" // an int that selects the plural form
	Number    Kind = "number"
	Message   Kind = "text"
	Component Kind = "html"
)

// Argument is an argument of a text.
type Argument struct {
	Name string
	Kind Kind
}

// Read reads a section.
func Read(content []byte) ([]Text, error) {
	var section yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(content, &section, yaml.Strict(), yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	texts := make([]Text, 0, len(section))
	for _, item := range section {
		t := Text{Name: fmt.Sprint(item.Key)}
		switch value := item.Value.(type) {
		case string:
			t.Forms = []Form{{Name: "other", Text: value}}
		case yaml.MapSlice:
			for _, form := range value {
				t.Forms = append(t.Forms, Form{Name: fmt.Sprint(form.Key), Text: fmt.Sprint(form.Value)})
			}
		default:
			return nil, fmt.Errorf("%s: must be a string, or a string for each plural form", t.Name)
		}
		if err := t.parse(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		texts = append(texts, t)
	}
	return texts, nil
}

// parse cuts the forms of a text into parts and checks the arguments. The form "other" has all arguments, so it gives their order.
func (t *Text) parse() error {
	last := len(t.Forms) - 1
	if t.Forms[last].Name != "other" {
		return errors.New("must have the form other at the end")
	}
	if err := t.parseForm(&t.Forms[last]); err != nil {
		return err
	}
	known := len(t.Arguments)
	for i := range t.Forms[:last] {
		if err := t.parseForm(&t.Forms[i]); err != nil {
			return fmt.Errorf("%s: %w", t.Forms[i].Name, err)
		}
	}
	if len(t.Arguments) > known {
		return fmt.Errorf("{%s}: the form other does not have it", t.Arguments[known].Name)
	}
	if last > 0 && t.CountArgument() == "" {
		return errors.New("must have an argument {n:count} that selects the form")
	}
	return nil
}

// parseForm cuts a form at its arguments.
func (t *Text) parseForm(f *Form) error {
	literal := ""
	for text := f.Text; ; {
		before, rest, found := strings.Cut(text, "{")
		literal += strings.ReplaceAll(before, "}}", "}")
		if strings.HasPrefix(rest, "{") {
			literal, text = literal+"{", rest[1:]
			continue
		}
		if literal != "" {
			f.Parts = append(f.Parts, Part{Literal: literal})
		}
		if !found {
			return nil
		}
		inside, after, closed := strings.Cut(rest, "}")
		name, kind, _ := strings.Cut(inside, ":")
		argument := Argument{name, Kind(kind)}
		if !closed || name == "" || !argument.isKnown() {
			return fmt.Errorf("{%s: must be a name, with :count, :number, :text or :html if it is no string, and }", inside)
		}
		i := slices.IndexFunc(t.Arguments, func(a Argument) bool { return a.Name == name })
		switch {
		case i < 0:
			t.Arguments = append(t.Arguments, argument)
		case t.Arguments[i].Kind == String:
			t.Arguments[i].Kind = argument.Kind
		case kind != "" && t.Arguments[i].Kind != argument.Kind:
			return fmt.Errorf("{%s}: the argument is a {%s:%s} elsewhere", inside, name, t.Arguments[i].Kind)
		}
		f.Parts = append(f.Parts, Part{Argument: name})
		literal, text = "", after
	}
}

func (a Argument) isKnown() bool {
	switch a.Kind {
	case String, Count, Number, Message, Component:
		return true
	}
	return false
}

// CountArgument returns the name of the argument that selects the plural form, or "".
func (t *Text) CountArgument() string {
	for _, a := range t.Arguments {
		if a.Kind == Count {
			return a.Name
		}
	}
	return ""
}

// HasHTML reports whether an argument of the text is a component.
func (t *Text) HasHTML() bool {
	return slices.ContainsFunc(t.Arguments, func(a Argument) bool { return a.Kind == Component })
}

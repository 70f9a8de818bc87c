package httptool

import (
	"slices"
)

// argument is one argument of a tool, and where it goes.
type argument struct {
	name     string // as the API knows it
	in       string
	required bool
	schema   value
	param    Param // but in a body; Arg is still to be given
	field    Field // in a body
}

// bodyArguments are what a request's body is made of.
type bodyArguments struct {
	body   Body
	whole  *argument // all of it is one argument
	fields []argument
}

// places are where arguments go, by the order in which they get their names.
func places() []string { return []string{InPath, InQuery, InHeader, InCookie} }

// arrange gives arguments their names, fills the binding in, and writes the input schema, without its end: definitions may follow.
func arrange(binding *Binding, params []argument, body *bodyArguments) []byte {
	taken := newNames(argumentNameLength, isArgumentName)
	var properties value
	var required []string
	properties.kind = '{'
	add := func(a *argument) string {
		name := taken.take(a.name, taken.with(taken.fit(a.name), "_"+a.in))
		properties.members = append(properties.members, member{name, a.schema})
		if a.required {
			required = append(required, name)
		}
		return name
	}
	for _, place := range places() {
		for i := range params {
			if a := &params[i]; a.in == place {
				a.param.Arg = add(a)
				binding.Params = append(binding.Params, a.param)
			}
		}
	}
	if body != nil {
		made := body.body
		binding.Body = &made
		if body.whole != nil {
			made.Arg = add(body.whole)
		}
		for i := range body.fields {
			a := &body.fields[i]
			a.field.Arg = add(a)
			made.Fields = append(made.Fields, a.field)
		}
	}
	schema := object(member{"type", text("object")}, member{"properties", properties})
	if len(required) > 0 {
		schema.set("required", texts(required))
	}
	schema.set("additionalProperties", boolean(false))
	b := schema.appendTo(nil)
	return slices.Clip(b[:len(b)-1])
}

package openapi

import "slices"

// argument is an argument of a tool with its place in the request.
type argument struct {
	name     string // name in the API
	in       string
	required bool
	schema   value
	param    Param // outside the body; Arg is not known yet
	field    Field // in the body
}

// bodyArguments are the arguments of a request body.
type bodyArguments struct {
	body   Body
	whole  *argument // the whole body is one argument
	fields []argument
}

// places lists the places of arguments in the order in which they get their names.
func places() []string { return []string{InPath, InQuery, InHeader, InCookie} }

// nameArguments names the arguments, completes the binding, and returns the input schema without its closing brace: $defs may follow.
func nameArguments(binding *Binding, params []argument, body *bodyArguments) []byte {
	taken := newNameSet(argumentNameLength, isArgumentRune)
	var properties value
	var required []string
	properties.kind = '{'
	add := func(a *argument) string {
		name := taken.takeName(a.name, taken.withSuffix(taken.fitName(a.name), "_"+a.in))
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

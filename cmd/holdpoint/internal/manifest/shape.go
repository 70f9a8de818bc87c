package manifest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// shape is the expected form of a value. That of holdpoint.yaml comes from the Go types of its spec; see [shapeOf].
type shape struct {
	kind   kind
	fields map[string]shape // of an object
	names  []string         // of the fields, in order; nil: in order of their names
	of     *shape           // of the elements of a list, or of a dictionary
	secret bool             // a word that may stand in a variable, in a file, or in the output of a program
	short  string           // of an object: the field that a single word stands for
	ignore bool             // not ours
	file   string           // of a word that is a URL or a path: the field for the text of the file

	// What editors and people need to know of a field.
	doc       string
	required  bool
	otherwise string   // the default
	values    []string // all that it may be
	low, high string   // bounds
	unit      string   // of a number
}

type kind int

const (
	word       kind = iota // a scalar, as it is written
	boolean                // true or false
	number                 // a whole number
	decimal                // a number that may have a fraction
	duration               // as Go writes them
	list                   // a sequence
	dictionary             // a mapping with any keys
	object                 // a mapping with known keys
	free                   // whatever JSON can say
)

func listOf(of shape) shape       { return shape{kind: list, of: &of} }
func dictionaryOf(of shape) shape { return shape{kind: dictionary, of: &of} }

// shapeOf returns the shape of a Go type, by its JSON members. A field's tag "manifest" has options, separated by commas:
//
//	secret       the value, or each value of a map, may be a reference
//	short        a single word stands for the struct with this field alone
//	file=NAME    a path stands for the member NAME with the text of the file
//	required     the field must be there
//	-            the file does not have it
//
// The tags "doc", "otherwise", "values" and "unit" are its description, its default, all its values, and the unit of a number.
func shapeOf(t reflect.Type) shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[agent.Duration]():
		return shape{kind: duration}
	case reflect.TypeFor[json.RawMessage]():
		return shape{kind: free}
	}
	switch t.Kind() {
	case reflect.String:
		return shape{}
	case reflect.Bool:
		return shape{kind: boolean}
	case reflect.Int, reflect.Int64:
		return shape{kind: number}
	case reflect.Float64:
		return shape{kind: decimal}
	case reflect.Slice:
		return listOf(shapeOf(t.Elem()))
	case reflect.Map:
		return dictionaryOf(shapeOf(t.Elem()))
	case reflect.Struct:
		s := shape{kind: object, fields: map[string]shape{}}
		s.addFields(t)
		return s
	default:
		panic("manifest: no shape for " + t.String())
	}
}

// addFields adds the fields of a struct to an object, and those of its embedded structs.
func (s *shape) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		options := splitOptions(f.Tag.Get("manifest"))
		switch _, hidden := options["-"]; {
		case f.Anonymous && name == "":
			s.addFields(f.Type)
			continue
		case hidden, name == "-", !f.IsExported():
			continue
		}
		field := shapeOf(f.Type)
		if _, secret := options["secret"]; secret {
			if field.kind == dictionary {
				field.of.secret = true
			} else {
				field.secret = true
			}
		}
		if _, short := options["short"]; short {
			s.short = name
		}
		_, field.required = options["required"]
		field.file = options["file"]
		field.describe(f.Tag)
		s.fields[name], s.names = field, append(s.names, name)
	}
}

// describe reads what the tags say of a field's meaning: those of this package, of the table of settings, and of the API.
func (s *shape) describe(tag reflect.StructTag) {
	s.doc, s.otherwise, s.unit = tag.Get("doc"), tag.Get("otherwise"), tag.Get("unit")
	if s.doc == "" {
		s.doc = tag.Get("about")
	}
	setting := splitOptions(tag.Get("setting"))
	s.low, s.high = setting["min"], setting["max"]
	if s.low == "" {
		s.low, s.high = tag.Get("minimum"), tag.Get("maximum")
	}
	if enum := setting["enum"]; enum != "" {
		s.values = strings.Split(enum, "|")
	} else if values := tag.Get("values"); values != "" {
		s.values = strings.Split(values, "|")
	}
	switch {
	case s.otherwise != "" || s.required:
	case setting["default"] != "":
		s.otherwise = setting["default"]
	case setting["zero"] != "":
		s.otherwise = setting["zero"]
	case setting["enum"] != "":
		s.otherwise = s.values[0]
	case s.kind == boolean:
		s.otherwise = "false"
	}
}

func splitOptions(tag string) map[string]string {
	options := map[string]string{}
	for option := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(option, "=")
		options[name] = value
	}
	return options
}

// listNames returns the names of an object's fields, in order.
func (s *shape) listNames() []string {
	if s.names == nil {
		return slices.Sorted(maps.Keys(s.fields))
	}
	return s.names
}

// topShape is the shape of holdpoint.yaml.
func topShape() shape {
	s := shapeOf(reflect.TypeFor[agent.Spec]())
	s.fields["server"] = shape{
		kind: dictionary, of: &shape{kind: free}, ignore: true,
		doc: "The settings of holdpoint serve, by the names of its flags without the dashes. Apply does not read them.",
	}
	s.names = append([]string{"server"}, s.names...)
	return s
}

// rulesOnly is the shape of holdpoint.yaml for readers of its rules.
func rulesOnly() shape {
	s := topShape()
	for name, field := range s.fields {
		field.ignore = name != "rules"
		s.fields[name] = field
	}
	return s
}

func ruleShape() shape     { return shapeOf(reflect.TypeFor[rule.Spec]()) }
func policyShape() shape   { return shapeOf(reflect.TypeFor[policy.Spec]()) }
func endpointShape() shape { return shapeOf(reflect.TypeFor[tool.Endpoint]()) }

// ruleTestsShape is the shape of a file with tests of rules.
func ruleTestsShape() shape {
	flag := shape{kind: boolean}
	person := shape{kind: object, fields: map[string]shape{"id": {}, "email": {}, "name": {}, "groups": listOf(shape{})}}
	return shape{kind: object, fields: map[string]shape{
		"schema": dictionaryOf(shape{kind: free}),
		"tests": listOf(shape{kind: object, fields: map[string]shape{
			"name": {}, "rule": {}, "agent": {}, "skill": {}, "tool": {}, "arguments": {kind: free}, "now": {},
			"principal": person,
			"earlier": listOf(shape{kind: object, fields: map[string]shape{
				"ago": {}, "agent": {}, "skill": {}, "tool": {}, "arguments": {kind: free}, "principal": person, "other_conversation": flag,
			}}),
			"claimed":       {kind: object, fields: map[string]shape{"read_only": flag, "destructive": flag, "idempotent": flag, "open_world": flag}},
			"context":       {kind: object, fields: map[string]shape{"cwd": {}, "paths": listOf(shape{})}},
			"auto_approved": flag, "high_risk": flag, "matches": flag, "verdict": {},
		}}),
	}}
}

// tokenIssuer is an authorization server whose access tokens agents' endpoints take.
func tokenIssuer() shape {
	return shape{kind: object, fields: map[string]shape{
		"issuer": {}, "audience": {}, "identity_claim": {}, "scopes": listOf(shape{}), "agent_claim": {}, "agents": dictionaryOf(listOf(shape{})),
		"principal": {}, "service_clients": listOf(shape{}),
	}}
}

// identityProvider is one that people sign in with.
func identityProvider() shape {
	groups := listOf(shape{})
	return shape{kind: object, fields: map[string]shape{
		"name": {}, "issuer": {}, "client_id": {}, "client_secret": {secret: true},
		"scopes": listOf(shape{}), "groups_claim": {}, "identity_claim": {}, "trust_email": {kind: boolean}, "session": {kind: duration},
		"roles":         {kind: object, fields: map[string]shape{"reviewer": groups, "operator": groups}},
		"default_roles": listOf(shape{}),
		"teams":         {kind: object, fields: map[string]shape{"prefix": {}, "groups": dictionaryOf(groups)}},
	}}
}

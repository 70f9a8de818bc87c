package condition

import (
	"encoding/json"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"
)

// Input is a call that conditions judge.
type Input struct {
	Arguments          json.RawMessage
	Agent, Skill, Tool string
	Principal          *Principal // nil: none
	Claimed            Hints
	Context            Context
	Now                time.Time // by the database's clock
}

// Principal is the person or service on whose behalf the agent calls. Empty texts are missing values.
type Principal struct {
	ID, Email, Name string
	Groups          []string
}

// Context is what the caller of a gate-only call says about itself. Empty values are missing.
type Context struct {
	// Cwd is the folder in which the caller runs.
	Cwd string
	// Paths are the files and folders that the call names, as the caller found them after it followed all links.
	Paths []string
}

// Hints are what the tool's server claims about the tool. Nil: it claims nothing.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// Activation is a call that was decoded for any number of conditions. It is safe for concurrent use.
type Activation struct {
	arguments          *node
	agent, skill, tool ref.Val
	principal, claimed any
	context            any
	now                ref.Val
}

// NewActivation decodes a call. What cannot be decoded fails the conditions that touch it.
func NewActivation(in *Input) *Activation {
	a := &Activation{
		arguments: decodeArguments(in.Arguments),
		agent:     types.String(in.Agent),
		skill:     types.String(in.Skill),
		tool:      types.String(in.Tool),
		principal: types.NullValue,
		now:       types.Timestamp{Time: in.Now.UTC()},
	}
	if p := in.Principal; p != nil {
		n := &node{kind: '{'}
		n.addText("id", p.ID)
		n.addText("email", p.Email)
		n.addText("name", p.Name)
		n.addMember("groups", newTexts(p.Groups))
		a.principal = principalShape.convertNested(n)
	}
	n := &node{kind: '{'}
	n.addHint("read_only", in.Claimed.ReadOnly)
	n.addHint("destructive", in.Claimed.Destructive)
	n.addHint("idempotent", in.Claimed.Idempotent)
	n.addHint("open_world", in.Claimed.OpenWorld)
	a.claimed = claimedShape.convertNested(n)
	n = &node{kind: '{'}
	n.addText("cwd", in.Context.Cwd)
	if len(in.Context.Paths) > 0 {
		n.addMember("paths", newTexts(in.Context.Paths))
	}
	a.context = contextShape.convertNested(n)
	return a
}

func newTexts(texts []string) *node {
	n := &node{kind: '['}
	for _, text := range texts {
		n.children = append(n.children, newText(text))
	}
	return n
}

func newText(text string) *node { return &node{kind: '"', scalar: types.String(text)} }

func (n *node) addMember(name string, child *node) {
	n.addName(name)
	n.children = append(n.children, child)
}

func (n *node) addText(name, text string) {
	if text != "" {
		n.addMember(name, newText(text))
	}
}

func (n *node) addHint(name string, hint *bool) {
	if hint == nil {
		return
	}
	kind := jsontext.Kind('f')
	if *hint {
		kind = 't'
	}
	n.addMember(name, &node{kind: kind, scalar: types.Bool(*hint)})
}

//nolint:gochecknoglobals // tables
var (
	principalShape = newObjectShape("principal", map[string]*shape{
		"id":     {kind: stringKind},
		"email":  {kind: stringKind},
		"name":   {kind: stringKind},
		"groups": {kind: listKind, elem: &shape{kind: stringKind, path: "principal.groups[]"}},
	})
	claimedShape = newObjectShape("claimed", map[string]*shape{
		"read_only":   {kind: booleanKind},
		"destructive": {kind: booleanKind},
		"idempotent":  {kind: booleanKind},
		"open_world":  {kind: booleanKind},
	})
	contextShape = newObjectShape("context", map[string]*shape{
		"cwd":   {kind: stringKind},
		"paths": {kind: listKind, elem: &shape{kind: stringKind, path: "context.paths[]"}, maxSize: MaxPaths},
	})
)

func newObjectShape(name string, fields map[string]*shape) *shape {
	s := &shape{kind: objectKind, path: name, typeName: objectTypePrefix + name, fields: fields}
	for field, f := range fields {
		f.path = name + "." + field
	}
	s.rest = newUntyped(name)
	return s
}

func addShape(objects map[string]*shape, s *shape) { objects[s.typeName] = s }

// bindings are the variables of one evaluation.
type bindings struct {
	*Activation

	root    *shape
	answers Answers
}

// ResolveName implements [cel.Activation].
func (b *bindings) ResolveName(name string) (any, bool) {
	if name == memoryVariable {
		return &memory{types.NullValue, b.answers}, true
	}
	return b.findVariable(name, b.root)
}

// findVariable returns the value of a variable. The arguments are of the types of root.
func (a *Activation) findVariable(name string, root *shape) (any, bool) {
	switch name {
	case "args":
		value, err := root.convertNode(a.arguments)
		if err != nil {
			return types.WrapErr(err), true
		}
		return value, true
	case "agent":
		return a.agent, true
	case "skill":
		return a.skill, true
	case "tool":
		return a.tool, true
	case "principal":
		return a.principal, true
	case "claimed":
		return a.claimed, true
	case "context":
		return a.context, true
	case "now":
		return a.now, true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (*bindings) Parent() cel.Activation { return nil }

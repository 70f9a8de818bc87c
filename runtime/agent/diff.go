package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// field is one field of a skill, an agent or an assignment, as text.
type field struct {
	name, value string
	secret      bool
}

// maxShown bounds a value in a diff, in bytes.
const maxShown = 200

// diff compares two states field by field; what is not set has no field.
func diff(before, after []field) []FieldChange {
	old := make(map[string]field, len(before))
	for _, f := range before {
		old[f.name] = f
	}
	var changes []FieldChange
	for _, f := range after {
		was, existed := old[f.name]
		delete(old, f.name)
		if existed && was.value == f.value {
			continue
		}
		changes = append(changes, fieldChange(was, f, existed))
	}
	for _, f := range before {
		if _, gone := old[f.name]; gone {
			changes = append(changes, removedField(f))
		}
	}
	return changes
}

func fieldChange(was, is field, existed bool) FieldChange {
	if !is.secret {
		return FieldChange{Field: is.name, Old: shown(was.value), New: shown(is.value)}
	}
	if existed {
		return FieldChange{Field: is.name, New: "(secret) changed"}
	}
	return FieldChange{Field: is.name, New: "(secret) set"}
}

func removedField(was field) FieldChange {
	if was.secret {
		return FieldChange{Field: was.name, New: "(secret) removed"}
	}
	return FieldChange{Field: was.name, Old: shown(was.value)}
}

func shown(value string) string {
	if len(value) <= maxShown {
		return value
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "…"
}

// fields are a skill's, in the order of holdpoint.yaml.
func (s *skillState) fields() []field {
	if s == nil {
		return nil
	}
	list := []field{{name: "transport", value: string(s.Transport)}}
	if s.URL != "" && !s.Transport.IsAPI() {
		list = append(list, field{name: "url", value: s.URL})
	}
	list = append(list, s.apiFields()...)
	if len(s.Command) > 0 {
		list = append(list, field{name: "command", value: jsonText(s.Command)})
	}
	if s.RunAs != "" {
		list = append(list, field{name: "run_as", value: s.RunAs})
	}
	for _, p := range []struct {
		name  string
		paths []string
	}{{"paths.read", s.Paths.Read}, {"paths.write", s.Paths.Write}} {
		if len(p.paths) > 0 {
			list = append(list, field{name: p.name, value: jsonText(p.paths)})
		}
	}
	list = append(list, secretFields("headers.", s.Headers)...)
	list = append(list, secretFields("env.", s.Env)...)
	list = append(list, s.OAuth.fields()...)
	if s.Transport != tool.Stdio {
		list = append(list, field{name: "connection", value: s.connection()})
	}
	list = append(list,
		field{name: "auto_approve", value: strconv.FormatBool(s.AutoApprove)},
		field{name: "trust_new_tools", value: strconv.FormatBool(s.TrustNewTools)},
		field{name: "approval_timeout", value: Duration(s.ApprovalTimeout).String()},
		field{name: "call_timeout", value: Duration(s.CallTimeout).String()},
		field{name: "resources", value: s.Resources},
		field{name: "questions", value: s.Questions},
	)
	if s.ApprovalValidity != 0 {
		list = append(list, field{name: "approval_validity", value: Duration(s.ApprovalValidity).String()})
	}
	if s.Edits != EditsByRisk {
		list = append(list, field{name: "edits", value: s.Edits})
	}
	list = append(list, s.IdentityHeaders.fields()...)
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		list = append(list, field{name: "tools." + name, value: s.Tools[name].String()})
	}
	return append(list, s.Attention.fields()...)
}

func (s *skillState) connection() string {
	if s.PerUser {
		return ConnectionPerUser
	}
	return ConnectionShared
}

func secretFields(prefix string, values map[string]string) []field {
	var list []field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, field{name: prefix + name, value: values[name], secret: true})
	}
	return list
}

// String shows the settings as holdpoint.yaml writes them.
func (s ToolSettings) String() string {
	var parts []string
	if s.Risk != "" {
		parts = append(parts, "risk: "+s.Risk)
	}
	if s.Idempotent {
		parts = append(parts, "idempotent: true")
	}
	if s.Disabled() {
		parts = append(parts, "enabled: false")
	}
	if s.Select != "" {
		parts = append(parts, "select: "+strconv.Quote(s.Select))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// fields are an agent's.
func (a *agentState) fields() []field {
	if a == nil {
		return nil
	}
	var list []field
	if a.Instructions != "" {
		list = append(list, field{name: "instructions", value: a.Instructions})
	}
	list = append(list, a.Model.fields()...)
	list = append(list, field{name: "wait_budget", value: Duration(a.WaitBudget).String()})
	list = append(list, a.Endpoint.fields()...)
	return append(list, a.Attention.fields()...)
}

// fields are an assignment's.
func (a *AssignmentSpec) fields() []field {
	if a == nil {
		return nil
	}
	list := []field{{name: "tools", value: "all"}}
	if a.Tools != nil {
		list[0].value = jsonText(a.Tools)
	}
	if a.Prefix != nil {
		list = append(list, field{name: "prefix", value: strconv.Quote(*a.Prefix)})
	}
	return list
}

// jsonText shows a list of words.
func jsonText(words []string) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(words); err != nil {
		return fmt.Sprint(words)
	}
	return strings.TrimSpace(text.String())
}

// auditData is a change as its event keeps it.
func auditData(name string, changes []FieldChange) map[string]any {
	data := map[string]any{"name": name}
	if len(changes) > 0 {
		data["fields"] = changes
	}
	return data
}

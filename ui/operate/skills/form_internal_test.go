package skills

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestFormHasEverySetting: saving the form writes every setting, so the form must show all of them.
func TestFormHasEverySetting(t *testing.T) {
	t.Parallel()
	f := emptySkillForm()
	shown := map[string]bool{"tools": true} // each tool has a page
	for _, part := range f.listParts(true, true) {
		for _, field := range part.Fields {
			name, _, _ := strings.Cut(field.Name, ".")
			shown[name] = true
		}
	}
	for setting := range reflect.TypeFor[agent.SkillSettings]().Fields() {
		row, _ := reflect.TypeFor[agent.SkillSpec]().FieldByName(setting.Name)
		if name, _, _ := strings.Cut(row.Tag.Get("json"), ","); !shown[name] {
			t.Errorf("no field %s: add it in fields.go", name)
		}
	}
}

// TestGateForm: the form of a skill without a server has no fields of a server, and keeps its settings.
func TestGateForm(t *testing.T) {
	t.Parallel()
	f := formOfSkill(&agent.Skill{Name: "laptop", Transport: tool.Gate, SkillSettings: agent.SkillSettings{Host: "codex"}})
	shown := map[string]string{}
	for _, commands := range []bool{true, false} {
		for _, part := range f.listParts(false, commands) {
			for _, field := range part.Fields {
				shown[field.Name] = field.Value
			}
		}
	}
	for _, name := range []string{"url", "command", "headers", "oauth.grant", "transport"} {
		if _, ok := shown[name]; ok {
			t.Errorf("it has the field %s", name)
		}
	}
	if shown["host"] != "codex" {
		t.Errorf("the host is %q", shown["host"])
	}
}

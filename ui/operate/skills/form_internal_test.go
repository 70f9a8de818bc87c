package skills

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/agent"
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

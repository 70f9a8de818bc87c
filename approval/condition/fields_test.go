package condition_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
)

func TestFields(t *testing.T) {
	t.Parallel()
	list := func(schema string) string {
		s, err := condition.ReadSchema(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, f := range s.Fields() {
			fields = append(fields, f.Path+" "+f.Type)
		}
		return strings.Join(fields, ", ")
	}
	for schema, want := range map[string]string{
		``:                  `args any`,
		`{"type":"object"}`: `args map`,
		`{"type":"object","properties":{"amount":{"type":"number"},"note":{"type":["string","null"]},"count":{"type":"integer"},"my-tags":{"type":"array","items":{"type":"string"}},"dry":{"type":"boolean"},"rest":{}}}`: "args.amount double, args.count int, args.dry bool, args.`my-tags` list(string), args.note string | null, args.rest any",
		`{"type":"object","properties":{"to":{"type":"object","properties":{"iban":{"type":"string"}}},"items":{"type":"array","items":{"type":"object","properties":{"price":{"type":"number"}}}}}}`:                      `args.items list(object), args.items[].price double, args.to.iban string`,
	} {
		if got := list(schema); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	many := map[string]any{}
	for i := range 2000 {
		many[fmt.Sprintf("f%d", i)] = map[string]string{"type": "string"}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": many})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(list(string(raw)), ","); n > 500 {
		t.Errorf("%d fields", n)
	}
	common := condition.CommonFields()
	for path, kind := range map[string]string{"principal.email": "string", "now": "timestamp"} {
		if !slices.ContainsFunc(common, func(f condition.Field) bool { return f.Path == path && f.Type == kind }) {
			t.Errorf("no %s %s: %v", path, kind, common)
		}
	}
	s, err := condition.ReadSchema(json.RawMessage(`{"type":"object","properties":{"currency":{"enum":["EUR","a \"b\""]},"tags":{"type":"array","items":{"enum":["x"]}},"note":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, f := range s.Fields() {
		values[f.Path] = strings.Join(f.Values, " ")
	}
	if values["args.currency"] != `"EUR" "a \"b\""` || values["args.tags"] != `"x"` || values["args.note"] != "" {
		t.Errorf("values: %v", values)
	}
}

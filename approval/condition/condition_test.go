package condition_test

import (
	"encoding/json"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
)

func readSchema(t testing.TB, schema string) *condition.Schema {
	t.Helper()
	s, err := condition.ReadSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustCompile(t testing.TB, s *condition.Schema, source string) *condition.Program {
	t.Helper()
	p, err := s.Compile(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// TestConditionsOfRules compiles the conditions that rules.md shows, and those with each function that it lists.
func TestConditionsOfRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rules.md")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := condition.ReadSchema(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Conditions\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```\n")
	shown := 0
	for line := range strings.Lines(block) {
		shown++
		source, _, _ := strings.Cut(line, "  ")
		if _, err := schema.Compile(source); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	_, table, _ := strings.Cut(string(text), "\n| function | result |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, name := range regexp.MustCompile(`([A-Za-z_]+)\(`).FindAllStringSubmatch(table, -1) {
		_, err := schema.Compile("args.x." + name[1] + "(args.y) == args.z")
		if err != nil && strings.Contains(err.Error(), "unknown function") {
			t.Errorf("the table of functions has %s: %v", name[1], err)
		}
	}
	if shown < 10 {
		t.Errorf("%d conditions", shown)
	}
}

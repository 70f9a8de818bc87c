package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestFilesAreCurrent: the committed files match the tables.
func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := generateFrom("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		committed, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, want) {
			t.Errorf("%s differs from the tables: run go generate ./runtime/agent", name)
		}
	}
}

// TestReadTableRefuses: an error in the table names the field.
func TestReadTableRefuses(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		"A bool `json:\"a\" setting:\"wide\" flag:\"-\"`":                 `field A: unknown option "wide"`,
		"A bool `json:\"a\" setting:\"\"`":                                "field A: a setting needs the tag flag",
		"A string `json:\"a\" setting:\"\" flag:\"-\"`":                   "field A: a string needs the option enum or check",
		"A *Duration `json:\"a\" setting:\"min=1s,max=2s\" flag:\"-\"`":   "field A: a duration needs the option default or zero",
		"A *Duration `json:\"a\" setting:\"min=1s\" flag:\"-\"`":          "field A: a duration needs the options min and max",
		"A *Duration `json:\"a\" setting:\"min=1s,max=soon\" flag:\"-\"`": "field A: option max: ",
	} {
		_, err := readTable([]byte("package agent\n\ntype SkillSpec struct {\n"+row+"\n}\n"), "SkillSpec")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", row, err, want)
		}
	}
}

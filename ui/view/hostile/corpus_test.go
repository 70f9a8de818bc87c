package hostile_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// readCorpus reads a file of ui/testdata.
func readCorpus(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// dangersOf returns the warnings of the level Danger about the members of a document.
func dangersOf(t *testing.T, document json.RawMessage) []typed.Warning {
	t.Helper()
	var dangers []typed.Warning
	add := func(warnings []typed.Warning) {
		for _, w := range warnings {
			if w.Level() == typed.Danger {
				dangers = append(dangers, w)
			}
		}
	}
	add(typed.CompareKeys(document))
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	for name, raw := range members {
		add(typed.Recognize(name, raw, func(name string) (json.RawMessage, bool) { raw, ok := members[name]; return raw, ok }).Warnings)
	}
	return dangers
}

// Honest texts in twenty languages raise no alarm, whole and cut.
func TestHonestCorpus(t *testing.T) {
	t.Parallel()
	var corpus map[string][]json.RawMessage
	readCorpus(t, "honest.json", &corpus)
	n := 0
	for language, documents := range corpus {
		for _, document := range documents {
			n++
			for name, limits := range map[string]hostile.Limits{"page": hostile.Folded(), "row": hostile.Brief(), "uncut": {}} {
				fields, err := hostile.ReadFields(document, limits)
				if err != nil || fields.IsAlarming() {
					t.Errorf("%s, %s: %+v %v: %s", language, name, fields.Findings, err, drawnFields(fields))
				}
			}
			if found, err := hostile.Find(document); err != nil || found.IsAlarming() {
				t.Errorf("%s: found %+v, %v: %s", language, found, err, document)
			}
			if dangers := dangersOf(t, document); len(dangers) > 0 {
				t.Errorf("%s: %v: %s", language, dangers, document)
			}
		}
	}
	if n < 200 || len(corpus) < 20 {
		t.Errorf("%d texts in %d languages", n, len(corpus))
	}
}

// Each trick is either a finding or a dangerous value.
func TestTricks(t *testing.T) {
	t.Parallel()
	var tricks []struct {
		Trick     string
		Arguments json.RawMessage
	}
	readCorpus(t, "tricks.json", &tricks)
	for _, trick := range tricks {
		fields, err := hostile.ReadFields(trick.Arguments, hostile.Folded())
		if err != nil {
			t.Fatalf("%s: %v", trick.Trick, err)
		}
		if !fields.IsAlarming() && len(dangersOf(t, trick.Arguments)) == 0 {
			t.Errorf("%s raises no alarm: %s", trick.Trick, trick.Arguments)
		}
	}
	if len(tricks) <= 60 {
		t.Errorf("%d tricks", len(tricks))
	}
}

package resource_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

func TestServersAreToldWhoAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	docs := w.addSkill("docs")
	docs.answers["resources/list"] = `{"resources":[{"uri":"x:1","name":"one"}]}`
	docs.answers["resources/read"] = `{"contents":[]}`
	var fault error
	w.service.Headers = func(_ context.Context, skill *agent.Skill, who resource.Who) (map[string]string, error) {
		return map[string]string{"X-Who": skill.Name + " " + who.AgentID.String()}, fault
	}
	if _, err := w.service.Read(t.Context(), w.who, "x:1", resource.Ask{}); err != nil {
		t.Fatal(err)
	}
	reads := 0
	for _, r := range w.requests {
		want := ""
		if r.Method == "resources/read" {
			reads++
			want = "docs " + w.who.AgentID.String()
		}
		if got := r.Caller.Headers["X-Who"]; got != want { // agents share lists
			t.Errorf("%s: %q, want %q", r.Method, got, want)
		}
	}
	fault = errors.New("no database")
	if _, err := w.service.Read(t.Context(), w.who, "x:1", resource.Ask{}); !errors.Is(err, fault) || reads != 1 {
		t.Errorf("%d reads, %v", reads, err)
	}
}

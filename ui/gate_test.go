package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestGateOnTheDesk: an operator registers a skill without a server, and the desk says that Holdpoint does not execute its calls.
func TestGateOnTheDesk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	made := olga.post("/skills/new", olga.get("/skills/new").fillForm("skill-form", url.Values{
		"name": {"laptop"}, "transport": {"gate"}, "host": {"claude-code"}, "url": {""}, "release_time": {"2m"},
	}))
	if made.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", made.status, made.text())
	}
	skill := w.skillNamed("laptop")
	if skill.Transport != tool.Gate || skill.Host != "claude-code" || skill.ReleaseTime != 2*time.Minute {
		t.Errorf("registered %+v", skill)
	}
	path := made.header.Get("Location")
	path, _, _ = strings.Cut(path, "?")
	if saved := olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{"host": {"codex"}})); saved.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", saved.status, saved.text())
	}
	if skill = w.skillNamed("laptop"); skill.Host != "codex" || skill.Transport != tool.Gate || skill.ReleaseTime != 2*time.Minute {
		t.Errorf("saved %+v", skill)
	}
	if page := olga.get(path); !strings.Contains(page.text(), "executed by the caller") {
		t.Errorf("its page: %s", page.text())
	}
	_, err := w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: "laptop"}, nil)
	check(t, err)
	entry, err := w.catalog.FindGated(t.Context(), w.agent.ID, "laptop", "Bash")
	check(t, err)
	arguments, err := call.CleanArguments([]byte(`{"command":"echo hi > file"}`))
	check(t, err)
	ticket, err := w.calls.Submit(t.Context(), call.Submission{
		Agent: w.agent, PrincipalID: uuid.Nil, Entry: entry, Arguments: arguments, Gate: &call.GateRequest{
			Name: "r1", GateBinding: call.GateBinding{Directory: "/home/ann/app"}, GateOrigin: call.GateOrigin{Subject: &call.GateSubject{ID: "Rob@example.com"}},
		},
	})
	check(t, err)
	rita := w.signedIn("rita", identity.Reviewer)
	page := rita.get("/calls/" + ticket.ID.String())
	for _, want := range []string{"Holdpoint does not execute this call.", "codex executes it after you approve", "/home/ann/app", "Made for, as the gateway says", "Rob@example.com"} {
		if !strings.Contains(page.text(), want) {
			t.Errorf("the call's page lacks %q", want)
		}
	}
	if queue := rita.get("/"); !strings.Contains(queue.text(), "Executed by codex") {
		t.Errorf("the queue: %d %s", queue.status, queue.text())
	}
}

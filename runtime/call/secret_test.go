package call_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

const secretTool = `{"name":"post","inputSchema":{"type":"object","properties":{
	"token":{"type":"string"},"api_key":{"type":"string"},"login":{"properties":{"phrase":{"type":"string","format":"password"}}},
	"code":{"type":"integer","writeOnly":true},"tokens":{"items":{"type":"string"}},"text":{"type":"string"}}}}`

// approve submits a call of skill files, approves it, and returns it when it has ended.
func (w *world) approve(tool, arguments string) call.Call {
	w.t.Helper()
	ticket := w.submit("files__"+tool, arguments)
	check(w.t, w.decide(ticket.ID, true))
	c := w.waitForEnd(ticket.ID)
	check(w.t, w.calls.MarkDelivered(w.t.Context(), ticket.ID)) // or the same call would attach to this one
	return c
}

// facts returns the stored facts of a call as text.
func (w *world) facts(id uuid.UUID) string {
	w.t.Helper()
	var facts []byte
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT facts FROM call_facts WHERE call_id = $1`, id).Scan(&facts))
	return string(facts)
}

// secrets returns the pointers of the secrets in the arguments of a call.
func (w *world) secrets(id uuid.UUID) []string {
	w.t.Helper()
	c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
	check(w.t, err)
	rules, err := w.calls.ReadSecrets(w.t.Context(), c)
	check(w.t, err)
	var found []string
	for _, f := range rules[id].Find(c.Arguments) {
		found = append(found, f.Pointer)
	}
	return found
}

// Secrets are neither stored as facts nor compared. Names that only the agent chose are.
func TestSecretsAreNotCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(secretTool)
	const arguments = `{"token":"s3cret-a","api_key":"s3cret-b","login":{"phrase":"s3cret-c","user":"ana"},"code":471147,
		"tokens":["s3cret-d","s3cret-e"],"text":"hello","password":"chosen"}`
	for range 3 {
		facts := w.facts(w.approve("post", arguments).ID)
		if strings.Contains(facts, "s3cret") || strings.Contains(facts, "471147") {
			t.Fatalf("secrets are stored: %s", facts)
		}
		for _, value := range []string{"ana", "hello", "chosen"} {
			if !strings.Contains(facts, value) {
				t.Errorf("%q is not stored: %s", value, facts)
			}
		}
	}
	c, err := w.calls.Get(t.Context(), call.Viewer{}, w.submit("files__post", arguments).ID)
	check(t, err)
	entries, err := w.calls.ReadEvidence(t.Context(), &c)
	check(t, err)
	hidden := []string{"/token", "/api_key", "/login/phrase", "/code", "/tokens/0", "/tokens/1"}
	for _, e := range entries {
		want := evidence.Usual
		if slices.Contains(hidden, e.Path) {
			want = evidence.Hidden
		}
		if e.Verdict != want || e.Verdict == evidence.Hidden && (e.Having > 0 || len(e.Common) > 0) {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if len(entries) != len(hidden)+3 {
		t.Errorf("%d entries", len(entries))
	}
}

// A value at a path that an operator marked is compared like any other.
func TestNotSecretIsCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(secretTool)
	const arguments = `{"token":"page-2","api_key":"k","tokens":["a"]}`
	if got := w.secrets(w.submit("files__post", arguments).ID); !slices.Equal(got, []string{"/token", "/api_key", "/tokens/0"}) {
		t.Errorf("before: %q", got)
	}
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateTool(t.Context(), audit.System(), skill.ID, "post", agent.ToolPatch{NotSecret: &[]string{"/token", "/tokens/*"}})
	check(t, err)
	c := w.approve("post", `{"token":"page-3","api_key":"k1","tokens":["a1"]}`)
	if got := w.secrets(c.ID); !slices.Equal(got, []string{"/api_key"}) {
		t.Errorf("marked: %q", got)
	}
	if facts := w.facts(c.ID); !strings.Contains(facts, "page-3") || !strings.Contains(facts, "a1") || strings.Contains(facts, "k1") {
		t.Errorf("facts %s", facts)
	}
}

// A definition that no operator accepted neither hides values of a pending call that the accepted one shows, nor shows those that it hides.
func TestChangedDefinitionHidesNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(`{"name":"post","inputSchema":{"type":"object","properties":{"token":{},"command":{}}}}`)
	const arguments = `{"token":"t1","command":"c1"}`
	before := w.approve("post", arguments)
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	w.source.Offer(`{"name":"post","inputSchema":{"type":"object","properties":{"token_count":{},"command":{"writeOnly":true}}}}`)
	w.discovery.ListChanged(skill.ID)
	pending := w.newSubmission("files__post", arguments)
	ticket, err := w.calls.Submit(t.Context(), pending)
	check(t, err)
	if got := w.secrets(ticket.ID); !slices.Equal(got, []string{"/token"}) {
		t.Errorf("while the change is not accepted: %q", got)
	}
	approved := w.approve("post", `{"token":"t2","command":"c2"}`)
	if facts := w.facts(approved.ID); strings.Contains(facts, "t2") || strings.Contains(facts, "c2") {
		t.Errorf("facts have what one of the definitions declares: %s", facts)
	}
	check(t, w.agents.AcceptTool(t.Context(), audit.System(), skill.ID, "post", pending.Entry.Tool.Pin()))
	if got := w.secrets(ticket.ID); !slices.Equal(got, []string{"/command"}) {
		t.Errorf("accepted: %q", got)
	}
	if got := w.secrets(before.ID); !slices.Equal(got, []string{"/token", "/command"}) {
		t.Errorf("an earlier call: %q", got)
	}
}

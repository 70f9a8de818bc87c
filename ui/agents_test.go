package ui_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

func (w *world) agentNamed(name string) *agent.Agent {
	w.t.Helper()
	a, err := w.agents.AgentByName(w.t.Context(), name)
	check(w.t, err)
	return a
}

func TestCreateAndEditAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/agents/new")
	wrong := olga.post("/agents/new", page.fillForm("agent-form", url.Values{
		"name": {"billing"}, "instructions": {"Line one\r\nline two"}, "model.api_key": {typedSecret}, "wait_budget": {"10s"},
	}))
	if wrong.status != http.StatusUnprocessableEntity || wrong.find("problem-model.provider").Length() != 1 || strings.Contains(wrong.body, typedSecret) ||
		wrong.fillForm("agent-form", nil).Get("instructions") != "Line one\nline two" {
		t.Fatalf("%d: %s", wrong.status, wrong.text())
	}
	long := strings.Repeat("Vorsicht — überall! ", 2800)
	form := url.Values{
		"name": {"clerk"}, "instructions": {long}, "team": {"ops"}, "wait_budget": {"10s"},
		"model.provider": {"openai"}, "model.name": {"m"}, "model.api_key": {typedSecret},
		"error_style": {agent.ErrorStyleCodes}, "pending_as": {agent.PendingAsResult}, "limits.calls_per_minute": {"90"}, "limits.pending": {"20"},
	}
	made := olga.post("/agents/new", page.fillForm("agent-form", form))
	if made.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", made.status, made.text())
	}
	clerk := w.agentNamed("clerk")
	if clerk.WaitBudget != 10*time.Second || clerk.Team != "ops" || clerk.Instructions != long {
		t.Errorf("made %+v", clerk)
	}
	if clerk.ErrorStyle != agent.ErrorStyleCodes || clerk.PendingAs != agent.PendingAsResult || clerk.ReplyLimit() != time.Minute || clerk.Limits != (agent.Limits{CallsPerMinute: 90, Pending: 20}) {
		t.Errorf("its endpoint: %+v", clerk)
	}
	path := "/agents/" + clerk.ID.String()
	edit := olga.get(path + "/edit")
	if strings.Contains(edit.body, typedSecret) || !strings.Contains(edit.text(), "Already set") {
		t.Error("the key is shown, or not known of")
	}
	few := olga.post(path+"/edit", edit.fillForm("agent-form", url.Values{"limits.concurrency": {"few"}, "limits.calls_per_minute": {"-1"}}))
	if few.status != http.StatusUnprocessableEntity || few.find("problem-limits.concurrency").Length()+few.find("problem-limits.calls_per_minute").Length() != 2 {
		t.Errorf("%d: %s", few.status, few.text())
	}
	odd := olga.post(path+"/edit", edit.fillForm("agent-form", url.Values{
		"model.input_price": {"cheap"}, "model.max_tokens": {"1.5"}, "limits.conversation_cost": {"NaN"}, "limits.conversation_time": {"long"}, "model.provider": {"mistral"},
	}))
	for _, field := range []string{"model.input_price", "model.max_tokens", "limits.conversation_cost", "limits.conversation_time", "model.provider"} {
		if odd.status != http.StatusUnprocessableEntity || odd.find("problem-"+field).Length() != 1 {
			t.Errorf("%s: %d: %s", field, odd.status, odd.text())
		}
	}
	conversations := edit.fillForm("agent-form", url.Values{
		"model.max_tokens": {"900"}, "model.images": {"false"}, "model.input_price": {"0.25"}, "model.output_price": {"2"},
		"limits.conversation_turns": {"30"}, "limits.conversation_tokens": {"500000"}, "limits.conversation_cost": {"1.5"}, "limits.conversation_time": {"72h"},
	})
	if a := olga.post(path+"/edit", conversations); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	set, err := w.agents.Model(t.Context(), clerk.ID)
	check(t, err)
	if set.MaxTokens != 900 || set.Sees() || set.Cost(4_000_000, 500_000) != 2 || set.APIKey != typedSecret {
		t.Errorf("model %+v", set)
	}
	if l := w.agentNamed("clerk").Limits; l != (agent.Limits{
		CallsPerMinute: 90, Pending: 20, ConversationTurns: 30, ConversationTokens: 500_000, ConversationCost: 1.5, ConversationTime: agent.Duration(72 * time.Hour),
	}) {
		t.Errorf("limits %+v", l)
	}
	for _, fact := range []string{"0.25 input, 2 output", "at most 30", "at most 72h", "at most 1.5"} {
		if shown := olga.get(path).text(); !strings.Contains(shown, fact) {
			t.Errorf("%q is not in %s", fact, shown)
		}
	}
	edit = olga.get(path + "/edit")
	unlimited := url.Values{}
	for _, field := range []string{
		"model.max_tokens", "model.images", "model.input_price", "model.output_price",
		"limits.conversation_turns", "limits.conversation_tokens", "limits.conversation_cost", "limits.conversation_time",
	} {
		if edit.fillForm("agent-form", nil).Get(field) == "" {
			t.Errorf("%s is not in the form", field)
		}
		unlimited.Set(field, "")
	}
	if a := olga.post(path+"/edit", edit.fillForm("agent-form", unlimited)); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	edit = olga.get(path + "/edit")
	changed := edit.fillForm("agent-form", url.Values{
		"model.name": {"m2"}, "escalate_to": {"leads"}, "reply_timeout": {"5s"}, "limits.concurrency": {"3"},
	})
	if a := olga.post(path+"/edit", changed); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if a := w.agentNamed("clerk"); a.ReplyTimeout != 5*time.Second || a.Limits != (agent.Limits{CallsPerMinute: 90, Concurrency: 3, Pending: 20}) {
		t.Errorf("its endpoint: %+v", a)
	}
	model, err := w.agents.Model(t.Context(), clerk.ID)
	check(t, err)
	if model.Name != "m2" || model.APIKey != typedSecret || w.agentNamed("clerk").EscalateTo != "leads" {
		t.Errorf("model %s", model.Name)
	}
	if a := olga.post(path+"/edit", changed); a.status != http.StatusConflict {
		t.Errorf("of an earlier revision: %d", a.status)
	}
	removed := olga.get(path+"/edit").fillForm("agent-form", url.Values{"model.name": {""}, "model.provider": {""}})
	if a := olga.post(path+"/edit", removed); a.status != http.StatusSeeOther || w.agentNamed("clerk").Model != nil {
		t.Errorf("%d: model %s", a.status, w.agentNamed("clerk").Model)
	}
	if rita := w.signedIn("rita", identity.Reviewer).get(path); rita.status != http.StatusOK || rita.find("make-key").Length()+rita.find("edit").Length()+rita.find("key").Length() != 0 {
		t.Errorf("a reviewer's page: %s", rita.text())
	}
}

func TestAgentKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/agents/" + w.agent.ID.String()
	olga := w.signedIn("olga", identity.Operator)
	made := olga.post(path+"/keys", nil)
	key := strings.TrimSpace(made.find("key-itself").Text())
	if made.status != http.StatusOK || made.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(key, "hpa_") {
		t.Fatalf("%d, %q", made.status, key)
	}
	command := made.find("command").Text()
	if want := "claude mcp add --transport http billing " + w.server.URL + `/agents/billing/mcp --header "Authorization: Bearer ` + key + `"`; command != want {
		t.Errorf("the command is %s, want %s", command, want)
	}
	if found, err := w.agents.Authenticate(t.Context(), key); err != nil || found.ID != w.agent.ID {
		t.Errorf("the key is of %+v, %v", found, err)
	}
	page := olga.get(path)
	if strings.Contains(page.body, key) || page.find("key").Length() != 1 {
		t.Errorf("the agent's page: %s", page.text())
	}
	if maker := page.find("key-maker").Text(); !strings.Contains(maker, "olga") || page.find("key-ends").Length() != 0 {
		t.Errorf("made by %q", maker)
	}
	w.db.Exec(`UPDATE agent_keys SET expires_at = '2020-01-01T00:00:00Z'`)
	if over := olga.get(path).find("key").Text(); !strings.Contains(over, "Expired") || !strings.Contains(over, "expires 1 Jan 2020") {
		t.Errorf("a key that ended: %s", over)
	}
	w.db.Exec(`UPDATE agent_keys SET expires_at = NULL`)
	revoke := page.find("revoke").Closest("form").AttrOr("action", "")
	other, err := w.agents.CreateAgent(t.Context(), audit.System(), agent.AgentSpec{Name: "other"})
	check(t, err)
	if a := olga.post(strings.Replace(revoke, w.agent.ID.String(), other.ID.String(), 1), nil); a.status != http.StatusNotFound {
		t.Errorf("another agent's key: %d", a.status)
	}
	if a := olga.post(revoke, nil); a.status != http.StatusSeeOther {
		t.Errorf("revoke: %d", a.status)
	}
	if _, err := w.agents.Authenticate(t.Context(), key); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("revoked: %v", err)
	}
	if a := olga.post(revoke, nil); a.status != http.StatusNotFound {
		t.Errorf("revoked twice: %d", a.status)
	}
}

func TestAssignSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	_, err := w.agents.CreateAgent(t.Context(), audit.System(), agent.AgentSpec{Name: "clerk"})
	check(t, err)
	clerk := w.agentNamed("clerk")
	path := "/agents/" + clerk.ID.String()
	w.relist(w.skillNamed("files"))
	if options := olga.get(path).find("assign-form").Find("option").Text(); options != "filesopen" {
		t.Errorf("to be assigned: %s", options)
	}
	page := olga.get(path + "/assign?skill=files")
	assigned := func() agent.Assignment {
		t.Helper()
		list, err := w.agents.Assignments(t.Context(), clerk.ID)
		check(t, err)
		if len(list) != 1 {
			t.Fatalf("assignments %+v", list)
		}
		return list[0]
	}
	for name, changes := range map[string]url.Values{
		"none ticked":         {"scope": {"some"}},
		"all, and some":       {"scope": {"all"}, "tools": {"echo"}},
		"a prefix that is no": {"scope": {"all"}, "prefix": {"No Prefix"}},
	} {
		if a := olga.post(path+"/assign", page.fillForm("assign-tools", changes)); a.status != http.StatusUnprocessableEntity || a.find("problems").Length() != 1 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a := olga.post(path+"/assign", page.fillForm("assign-tools", url.Values{"scope": {"some"}, "tools": {"echo", "save_csv"}, "prefix": {""}})); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if x := assigned(); !slices.Equal(x.Tools, []string{"echo", "save_csv"}) || x.Prefix == nil || *x.Prefix != "" {
		t.Errorf("assigned %+v", x)
	}
	shown := olga.get(path)
	if text := shown.find("sees").Text(); !strings.Contains(text, "save_csv") || strings.Contains(text, "files__") || strings.Contains(text, "delete_file") {
		t.Errorf("it sees %s", text)
	}
	again := olga.get(path+"/assign?skill=files").fillForm("assign-tools", nil)
	if again.Get("scope") != "some" || !slices.Equal(again["tools"], []string{"echo", "save_csv"}) || again.Get("prefix") != "" {
		t.Errorf("the form says %v", again)
	}
	again["tools"], again["scope"], again["prefix"] = nil, []string{"all"}, []string{"files"}
	if a := olga.post(path+"/assign", again); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if x := assigned(); x.Tools != nil || x.Prefix != nil {
		t.Errorf("assigned %+v", x)
	}
	if text := olga.get(path).find("sees").Text(); !strings.Contains(text, "files__delete_file") {
		t.Errorf("it sees %s", text)
	}
	if a := olga.post(path+"/unassign", olga.get(path).form("assignment")); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if list, err := w.agents.Assignments(t.Context(), clerk.ID); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
	if a := olga.get(path + "/assign?skill=nothing"); a.status != http.StatusNotFound {
		t.Errorf("no such skill: %d", a.status)
	}
}

func TestDeleteAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key, err := w.agents.CreateKey(t.Context(), audit.System(), w.agent.ID)
	check(t, err)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	path := "/agents/" + w.agent.ID.String()
	olga := w.signedIn("olga", identity.Operator)
	if text := olga.get(path).text(); !strings.Contains(text, "files: save_csv") {
		t.Errorf("its latest calls: %s", text)
	}
	asked := olga.get(path + "/delete")
	if text := asked.text(); !strings.Contains(text, "1 key stops working") || !strings.Contains(text, "1 pending call") {
		t.Errorf("the question: %s", text)
	}
	if a := olga.post(path+"/delete", nil); a.status != http.StatusOK {
		t.Errorf("unconfirmed: %d", a.status)
	}
	if a := olga.post(path+"/delete", asked.form("removal-form")); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if _, err := w.agents.Authenticate(t.Context(), key); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("its key: %v", err)
	}
	if a := olga.get(path); a.status != http.StatusNotFound {
		t.Errorf("its page: %d", a.status)
	}
}

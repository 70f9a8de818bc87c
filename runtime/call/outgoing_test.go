package call_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// withAPI gives the agent a skill of an HTTP API, whose tool write is a PUT.
func withAPI(t *testing.T, autoApprove bool) (*world, *agent.Skill) {
	t.Helper()
	w := newWorld(t)
	w.source.outgoing = func(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
		var arguments struct {
			N json.Number `json:"n"`
		}
		if err := json.Unmarshal(r.Arguments, &arguments); err != nil || arguments.N == "0" {
			return nil, &tool.Failure{Kind: tool.ToolError, Effect: tool.EffectNone, Message: "argument n: must not be empty in a path"}
		}
		return &tool.Outgoing{
			Method: "PUT", URL: server.URL + "/n/" + arguments.N.String(), Body: r.Arguments,
			Headers: []tool.OutgoingHeader{{Name: "Authorization", Secret: true}},
		}, nil
	}
	_, err := w.agents.Apply(t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{{
			Name: "api", Transport: tool.OpenAPI, AutoApprove: autoApprove,
			APISpec: agent.APISpec{BaseURL: "https://api.example/v1", Spec: "https://api.example/openapi.json"},
		}},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "api"}}}},
	}, false)
	check(t, err)
	w.agents.Invalidate()
	w.agent, err = w.agents.AgentByName(t.Context(), "billing")
	check(t, err)
	skill, err := w.agents.SkillByName(t.Context(), "api")
	check(t, err)
	return w, skill
}

func (w *world) getApproval(id uuid.UUID) call.Waiting {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	return waiting
}

func TestRequestIsPartOfTheEnvelope(t *testing.T) {
	t.Parallel()
	w, _ := withAPI(t, false)
	ticket := w.submit("api__write", `{"n":7}`)
	waiting := w.getApproval(ticket.ID)
	o, err := waiting.Call.Outgoing()
	check(t, err)
	if o.Method != http.MethodPut || o.URL != "https://api.example/v1/n/7" || string(o.Body) != `{"n":7}` || !o.Headers[0].Secret {
		t.Fatalf("the request is %+v", o)
	}
	// A change of the stored request changes the envelope.
	w.db.Exec(`UPDATE calls SET request = convert_to(replace(convert_from(request, 'UTF8'), 'api.example', 'evil.example'), 'UTF8') WHERE id = $1`, ticket.ID)
	check(t, w.decide(ticket.ID, true))
	if done := w.waitForEnd(ticket.ID); done.Status != call.Denied || done.Code != call.CodeEnvelopeChanged {
		t.Errorf("%s %s, want it denied", done.Status, done.Code)
	}
	if got := w.source.Arguments(); len(got) != 0 {
		t.Errorf("the server got %q", got)
	}
}

// A request is not sent if it would differ from the one that the reviewer saw.
func TestRequestThatComesOutDifferentlyIsNotSent(t *testing.T) {
	t.Parallel()
	w, _ := withAPI(t, false)
	ticket := w.submit("api__write", `{"n":7}`)
	w.source.Lock()
	w.source.outgoing = func(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
		return &tool.Outgoing{Method: "DELETE", URL: server.URL + "/n/7", Body: r.Arguments}, nil
	}
	w.source.Unlock()
	check(t, w.decide(ticket.ID, true))
	if done := w.waitForEnd(ticket.ID); done.Status != call.Denied || done.Code != call.CodeEnvelopeChanged || done.Effect != tool.EffectNone {
		t.Errorf("%s %s, want it denied", done.Status, done.Code)
	}
	if got := w.source.Arguments(); len(got) != 0 {
		t.Errorf("the server got %q", got)
	}
}

func TestChangedBaseURLVoidsTheApproval(t *testing.T) {
	t.Parallel()
	w, skill := withAPI(t, false)
	ticket := w.submit("api__write", `{"n":7}`)
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{APIPatch: agent.APIPatch{BaseURL: new("https://api.example/v2")}})
	check(t, err)
	check(t, w.decide(ticket.ID, true))
	if done := w.waitForEnd(ticket.ID); done.Status != call.Denied || done.Code != call.CodeSkillChanged {
		t.Errorf("%s %s, want it denied", done.Status, done.Code)
	}
}

func TestApprovedRequestIsSent(t *testing.T) {
	t.Parallel()
	w, _ := withAPI(t, false)
	ticket := w.submit("api__write", `{"n":7}`)
	check(t, w.decide(ticket.ID, true))
	if done := w.waitForEnd(ticket.ID); done.Status != call.Succeeded {
		t.Errorf("%s %s: %s", done.Status, done.Code, done.Message)
	}
	edited := w.submit("api__write", `{"n":8}`)
	decided, err := w.approveWith(edited.ID, `{"n":9}`)
	check(t, err)
	if o, err := decided.Call.Outgoing(); err != nil || o.URL != "https://api.example/v1/n/9" || string(o.Body) != `{"n":9}` {
		t.Errorf("the edited request is %+v, %v", o, err)
	}
	if done := w.waitForEnd(edited.ID); done.Status != call.Succeeded {
		t.Errorf("edited: %s %s: %s", done.Status, done.Code, done.Message)
	}
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"n":7}`, `{"n":9}`}) {
		t.Errorf("the server got %q", got)
	}
}

// Arguments that make no valid request are refused at submission and in a reviewer's edit.
func TestArgumentsThatMakeNoRequest(t *testing.T) {
	t.Parallel()
	for _, auto := range []bool{false, true} {
		w, _ := withAPI(t, auto)
		refused := w.waitForEnd(w.submit("api__write", `{"n":0}`).ID)
		if refused.Status != call.Invalid || !strings.Contains(refused.Message, "argument n") {
			t.Errorf("auto_approve %t: %s: %s", auto, refused.Status, refused.Message)
		}
		if auto {
			continue
		}
		ticket := w.submit("api__write", `{"n":1}`)
		if _, err := w.approveWith(ticket.ID, `{"n":0}`); !errors.Is(err, call.ErrEdit) {
			t.Errorf("edited: %v", err)
		}
		parked := w.getApproval(ticket.ID).Call
		if _, err := w.calls.CheckEdit(t.Context(), &parked, []byte(`{"n":0}`)); !errors.Is(err, call.ErrEdit) {
			t.Errorf("checked: %v", err)
		}
		if parked.Status != call.Parked {
			t.Errorf("the call is %s", parked.Status)
		}
	}
}

func TestStateBefore(t *testing.T) {
	t.Parallel()
	w, skill := withAPI(t, false)
	w.source.state = &tool.State{Status: 200, Body: []byte(`{"n":6}`), Media: "application/json"}
	ticket := w.submit("api__write", `{"n":7}`)
	parked := w.getApproval(ticket.ID).Call
	if _, _, known := w.calls.CachedBefore(&parked); known {
		t.Error("the state is known before it was read")
	}
	for range 3 {
		state, err := w.calls.ReadBefore(t.Context(), &parked)
		if err != nil || string(state.Body) != `{"n":6}` {
			t.Fatalf("%+v, %v", state, err)
		}
	}
	if _, _, known := w.calls.CachedBefore(&parked); !known || w.source.reads != 1 {
		t.Errorf("known %t, the server was asked %d times", known, w.source.reads)
	}
	// An error of the preview does not block the decision.
	w.source.Lock()
	w.source.state, w.source.stateErr = nil, &tool.Failure{Kind: tool.TransportFailure, Message: "no answer in time"}
	w.source.Unlock()
	second := w.submit("api__write", `{"n":8}`)
	other := w.getApproval(second.ID).Call
	_, err := w.calls.ReadBefore(t.Context(), &other)
	if failure, ok := errors.AsType[*tool.Failure](err); !ok || failure.Message != "no answer in time" {
		t.Errorf("%v", err)
	}
	check(t, w.decide(second.ID, true))
	if done := w.waitForEnd(second.ID); done.Status != call.Succeeded {
		t.Errorf("%s %s", done.Status, done.Code)
	}
	if _, err := w.calls.ReadBefore(t.Context(), new(w.getApproval(second.ID).Call)); !errors.Is(err, call.ErrState) {
		t.Errorf("after the decision: %v", err)
	}
	// A call that would not be sent reads no preview.
	third := w.submit("api__write", `{"n":9}`)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{APIPatch: agent.APIPatch{BaseURL: new("https://api.example/v2")}})
	check(t, err)
	if _, err := w.calls.ReadBefore(t.Context(), new(w.getApproval(third.ID).Call)); !errors.Is(err, call.ErrNoPreview) {
		t.Errorf("a changed skill: %v", err)
	}
}

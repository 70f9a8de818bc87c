package resource_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// onlyReads returns the resources/read requests.
func onlyReads(sent []string) []string {
	return slices.DeleteFunc(sent, func(s string) bool { return !strings.Contains(s, " resources/read ") })
}

func TestWhoIsAskedForAResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.addSkill("a"), w.addSkill("b", setGated), w.addSkill("c")
	a.answers["resources/list"] = `{"resources":[{"uri":"x:both"},{"uri":"x:a"}]}`
	c.answers["resources/list"] = `{"resources":[{"uri":"x:both"}]}`
	c.answers["resources/templates/list"] = `{"resourceTemplates":[{"uriTemplate":"note://{id}/text"},{"uriTemplate":"{bad"}]}`
	for _, s := range []*server{a, b, c} {
		s.answers["resources/read"] = `{"contents":[]}`
	}
	a.errs["resources/read x:elsewhere"] = &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-32002,"message":"no"}`)}
	w.returned["file:///r"] = []string{"b"}
	w.returned["x:a"] = []string{"b"}
	w.returned["note://r/text"] = []string{"b"}
	for uri, want := range map[string][]string{
		"x:both":        {"a"},      // the first skill that lists it
		"x:a":           {"a"},      // its own list wins over other skills' results
		"file:///r":     {"b"},      // a finished call returned it
		"note://r/text": {"b"},      // a returned URI wins over a template
		"note://7/text": {"c"},      // matches a template
		"x:elsewhere":   {"a", "c"}, // tried in turn
	} {
		w.takeRequests()
		if _, err := w.read(uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
		var skills []string
		for _, sent := range onlyReads(w.takeRequests()) {
			name, params, _ := strings.Cut(sent, " resources/read ")
			if skills = append(skills, name); params != `{"uri":"`+uri+`"}` {
				t.Errorf("%s: %s", uri, params)
			}
		}
		if !slices.Equal(skills, want) {
			t.Errorf("%s: asked %v, want %v", uri, skills, want)
		}
	}
}

func TestAPIsOfferToolsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("api", func(o *catalog.Offer) { o.Server.Transport = tool.OpenAPI })
	for _, kind := range []resource.Kind{resource.Resources, resource.Templates, resource.Prompts} {
		if got := w.list(kind); got != "" {
			t.Errorf("%s: %s", kind.Method(), got)
		}
	}
	if _, err := w.read("x:1"); !errors.Is(err, resource.ErrDenied) {
		t.Errorf("not asked: %v", err)
	}
	w.returned["x:1"] = []string{"api"}
	_, err := w.read("x:1")
	failed, ok := errors.AsType[*resource.SkillError](err)
	if !ok || failed.Stateless || failed.Failure.Kind != tool.JSONRPCError || failed.Failure.Effect != tool.EffectNone ||
		string(failed.Failure.RPC) != `{"code":-32601,"message":"Method not found"}` ||
		failed.Failure.Message != "resources/read: skill api is an HTTP API, which has tools only" {
		t.Errorf("returned by its call: %+v", err)
	}
}

func TestGatedSkillsAreNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.addSkill("b", setGated)
	b.answers["resources/list"] = `{"resources":[{"uri":"x:1"}]}`
	b.answers["resources/templates/list"] = `{"resourceTemplates":[{"uriTemplate":"x:{n}"}]}`
	b.answers["resources/read"] = `{"contents":[]}`
	w.returned["x:2"] = []string{"b"}
	for _, uri := range []string{"x:1", "x:3", "x:\u202e", strings.Repeat("y", resource.MaxURI)} {
		if _, err := w.read(uri); !errors.Is(err, resource.ErrDenied) {
			t.Errorf("%.10s: %v", uri, err)
		}
	}
	if sent := w.takeRequests(); sent != nil {
		t.Errorf("sent %v", sent)
	}
	if _, err := w.read("x:2"); err != nil {
		t.Error(err)
	}
	want := []string{
		"agent resource.denied <nil> x:1", "agent resource.denied <nil> x:3", `agent resource.denied <nil> x:\u202e`,
		"agent resource.denied <nil> " + strings.Repeat("y", 500) + "…", "agent resource.read b x:2",
	}
	if got := w.auditEvents(); !slices.Equal(got, want) {
		t.Errorf("recorded %q", got)
	}
}

// A resource that a call returned can be read only in the conversation of the call.
func TestReturnedResourcesAreOneConversations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("b", setGated).answers["resources/read"] = `{"contents":[]}`
	w.returned["x:1"] = []string{"b"}
	other := w.who
	other.Conversation = uuid.New()
	if _, err := w.service.Read(t.Context(), other, "x:1", resource.Ask{}); !errors.Is(err, resource.ErrDenied) {
		t.Errorf("another conversation: %v", err)
	}
	if _, err := w.read("x:1"); err != nil {
		t.Error(err)
	}
	w.offers = nil
	if _, err := w.read("x:1"); !errors.Is(err, resource.ErrDenied) {
		t.Errorf("a skill that the agent has no more: %v", err)
	}
}

func TestFailuresOfReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c := w.addSkill("a"), w.addSkill("c")
	skillOf := func(err error) (string, tool.FailureKind) {
		failed, ok := errors.AsType[*resource.SkillError](err)
		if !ok {
			t.Fatalf("%v", err)
		}
		return failed.Skill, failed.Failure.Kind
	}
	_, err := w.read("x:1") // no server has it
	if skill, kind := skillOf(err); skill != "a" || kind != tool.JSONRPCError {
		t.Errorf("%s %s", skill, kind)
	}
	c.errs["resources/read"] = newFailure(tool.TransportFailure, "away")
	_, err = w.read("x:1") // one server is unreachable
	if skill, kind := skillOf(err); skill != "c" || kind != tool.TransportFailure {
		t.Errorf("%s %s", skill, kind)
	}
	a.errs["resources/read"] = &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-32000,"message":"broken"}`)}
	w.takeRequests()
	_, err = w.read("x:1") // the server that has the resource gives the error
	if skill, _ := skillOf(err); skill != "a" || len(onlyReads(w.takeRequests())) != 1 {
		t.Errorf("%v", err)
	}
	a.caps.Resources, c.caps.Resources = false, false
	if _, err = w.read("x:2"); !errors.Is(err, resource.ErrDenied) {
		t.Errorf("no skill has resources: %v", err)
	}
	w.offers[0].Problem = &catalog.Problem{Skill: "a", Kind: catalog.ProblemNoPrincipal, Error: "nobody is acted for"}
	_, err = w.read("x:3")
	if failed, ok := errors.AsType[*resource.SkillError](err); !ok || failed.Failure.Connect == nil {
		t.Errorf("a skill of each person's own: %v", err)
	}
}

func TestRequestsGoOnVerbatim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.addSkill("a")
	a.answers["resources/list"] = `{"resources":[{"uri":"x:1"}]}`
	a.answers["resources/read"] = `{"resultType":"input_required","requestState":"s"}`
	ask := resource.Ask{
		Members: []byte(`"inputResponses":{"k":1.0},"requestState":"\u0073"`), Input: true,
		Caller: tool.Caller{Capabilities: json.RawMessage(`{"elicitation":{}}`)},
	}
	raw, err := w.service.Read(t.Context(), w.who, "x:1", ask)
	check(t, err)
	r := w.requests[len(w.requests)-1]
	if string(raw) != a.answers["resources/read"] || string(r.Params) != `{"uri":"x:1","inputResponses":{"k":1.0},"requestState":"\u0073"}` ||
		!r.Input || string(r.Caller.Capabilities) != `{"elicitation":{}}` || r.Name != "x:1" || r.Timeout == 0 {
		t.Errorf("%s %+v", raw, r)
	}
}

func TestNothingIsReadThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("a").answers["resources/list"] = `{"resources":[{"uri":"x:1"}]}`
	w.list(resource.Resources)
	_, err := w.db.Pool().Exec(t.Context(), `ALTER TABLE audit_events RENAME TO audit_events_gone`)
	check(t, err)
	defer func() {
		_, err := w.db.Pool().Exec(t.Context(), `ALTER TABLE audit_events_gone RENAME TO audit_events`)
		check(t, err)
	}()
	w.takeRequests()
	if _, err := w.read("x:1"); err == nil {
		t.Error("read without a record")
	}
	if sent := w.takeRequests(); sent != nil {
		t.Errorf("sent %v", sent)
	}
}

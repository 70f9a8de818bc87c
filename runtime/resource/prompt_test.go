package resource_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestPrompts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.who.Principal = uuid.New()
	a := w.addSkill("a")
	a.answers["prompts/list"] = `{"prompts":[{"name":"ask me"}]}`
	a.answers["prompts/get ask me"] = `{"messages":[]}`
	w.addSkill("b", setGated).answers["prompts/list"] = `{"prompts":[{"name":"hidden"}]}`
	get := func(name, arguments string) (string, error) {
		raw, err := w.service.Prompt(t.Context(), w.who, name, []byte(arguments), resource.Ask{Members: []byte(`"requestState":"s"`)})
		return string(raw), err
	}
	raw, err := get(tool.ExposedName("a", "ask me"), `{"x":"\u0079"}`)
	check(t, err)
	sent := w.takeRequests()
	if raw != `{"messages":[]}` || sent[len(sent)-1] != `a prompts/get {"name":"ask me","arguments":{"x":"\u0079"},"requestState":"s"}` {
		t.Errorf("%s %v", raw, sent)
	}
	for _, name := range []string{"ask me", "a__other", "b__hidden", "hidden"} {
		if _, err := get(name, `{}`); !errors.Is(err, resource.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.auditEvents(); !slices.Equal(got, []string{"person prompt.got a ask me"}) {
		t.Errorf("%q", got)
	}
	w.service.Changed(w.offers[0].Skill.ID)
	a.errs["prompts/list"] = newFailure(tool.TransportFailure, "away")
	_, err = get("a__ask", `{}`)
	if failed, ok := errors.AsType[*resource.SkillError](err); !ok || failed.Skill != "a" {
		t.Errorf("a skill that is away: %v", err)
	}
	if _, err := get("z__ask", `{}`); !errors.Is(err, resource.ErrUnknown) {
		t.Errorf("another skill's: %v", err)
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.addSkill("a")
	a.answers["prompts/list"] = `{"prompts":[{"name":"ask"}]}`
	a.answers["resources/templates/list"] = `{"resourceTemplates":[{"uriTemplate":"x:{n}"}]}`
	a.answers["resources/list"] = `{"resources":[{"uri":"x:1"}]}`
	a.answers["completion/complete"] = `{"completion":{"values":["v"]}}`
	ask := resource.Ask{Members: []byte(`"argument":{"name":"n","value":""}`)}
	for want, ref := range map[string]resource.Reference{
		`{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"n","value":""}}`:    {Type: "ref/prompt", Name: "a__ask"},
		`{"ref":{"type":"ref/resource","uri":"x:{n}"},"argument":{"name":"n","value":""}}`: {Type: "ref/resource", URI: "x:{n}"},
		`{"ref":{"type":"ref/resource","uri":"x:1"},"argument":{"name":"n","value":""}}`:   {Type: "ref/resource", URI: "x:1"},
	} {
		raw, err := w.service.Complete(t.Context(), w.who, ref, ask)
		check(t, err)
		if sent := w.takeRequests(); string(raw) != `{"completion":{"values":["v"]}}` || sent[len(sent)-1] != "a completion/complete "+want {
			t.Errorf("%s %v", raw, sent)
		}
	}
	for _, ref := range []resource.Reference{
		{Type: "ref/prompt", Name: "ask"}, {Type: "ref/resource", URI: "x:2"}, {Type: "ref/other", Name: "a__ask"},
	} {
		if _, err := w.service.Complete(t.Context(), w.who, ref, ask); !errors.Is(err, resource.ErrUnknown) {
			t.Errorf("%+v: %v", ref, err)
		}
	}
}

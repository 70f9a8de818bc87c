package resource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestWhoseListsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("a").answers["resources/list"] = `{"resources":[{"uri":"x:2"},{"uri":"x:1"}]}`
	w.addSkill("b", setGated).answers["resources/list"] = `{"resources":[{"uri":"secret:1"}]}`
	w.addSkill("c").answers["resources/list"] = `{"resources":[{"uri":"x:1","of":"c"},{"uri":"x:3"}]}`
	if got := w.list(resource.Resources); got != "x:2 x:1 x:3" {
		t.Error(got)
	}
	for _, sent := range w.takeRequests() {
		if strings.HasPrefix(sent, "b ") {
			t.Errorf("a gated skill was asked: %s", sent)
		}
	}
}

func TestPromptsHaveNamesAsToolsHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("a").answers["prompts/list"] = `{"prompts":[{"name":"ask"},{"name":"with space"},{"name":"` + strings.Repeat("l", 80) + `"}]}`
	w.addSkill("b", removePrefix).answers["prompts/list"] = `{"prompts":[{"name":"ask"},{"name":"a__ask"},{"name":"twice"}]}`
	w.addSkill("c", removePrefix).answers["prompts/list"] = `{"prompts":[{"name":"twice"}]}`
	names := strings.Fields(w.list(resource.Prompts))
	want := []string{"a__ask", tool.ExposedName("a", "with space"), tool.ExposedName("a", strings.Repeat("l", 80)), "ask"}
	if strings.Join(names[:4], " ") != strings.Join(want, " ") {
		t.Errorf("%v", names)
	}
	if got := strings.Join(names[4:], " "); got != "(b collision) (b collision) (c collision)" {
		t.Errorf("%v", got)
	}
}

func TestPagesAreFollowedWithinBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.addSkill("a")
	a.answers["resources/list"] = `{"resources":[{"uri":"x:1"}],"nextCursor":"two"}`
	a.answers["resources/list two"] = `{"resources":[{"uri":"x:2"},{"uri":"x:1"},{"uri":5},"no",{"name":"none"},{"uri":"x:\u0000"},{"uri":"` +
		strings.Repeat("y", resource.MaxURI+1) + `"},{"uri":"x:\u202e"}],"nextCursor":null}`
	if got := w.list(resource.Resources); got != "x:1 x:2 x:\u202e" {
		t.Errorf("%q", got)
	}
	for name, answers := range map[string]map[string]string{
		"circle":   {"resources/list": `{"resources":[],"nextCursor":"a"}`, "resources/list a": `{"resources":[],"nextCursor":"a"}`},
		"no list":  {"resources/list": `{"resources":{}}`},
		"nothing":  {"resources/list": `{}`},
		"twice":    {"resources/list": `{"resources":[],"resources":[]}`},
		"cursor":   {"resources/list": `{"resources":[],"nextCursor":7}`},
		"too many": {"resources/list": `{"resources":[` + manyResources(10_001) + `]}`},
		"too long": {"resources/list": `{"resources":[{"uri":"x:1","d":"` + strings.Repeat("d", 8<<20) + `"}]}`},
	} {
		w := newWorld(t)
		w.addSkill("a").answers = answers
		if got := w.list(resource.Resources); got != "(a protocol)" {
			t.Errorf("%s: %.80s", name, got)
		}
	}
}

func manyResources(n int) string {
	var text strings.Builder
	for i := range n {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"uri":"x:%d"}`, i)
	}
	return text.String()
}

func TestPartsThatAreMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("a").errs["resources/list"] = newFailure(tool.TransportFailure, "away")
	connect := newFailure(tool.TransportFailure, "nobody connected it")
	connect.Connect = &tool.Connect{Reason: "connect it"}
	w.addSkill("b").errs["resources/list"] = connect
	w.addSkill("c").answers["resources/list"] = `{"resources":[{"uri":"x:1"}]}`
	w.addSkill("d", func(o *catalog.Offer) {
		o.Problem = &catalog.Problem{Skill: "d", Kind: catalog.ProblemNoPrincipal, Error: "nobody"}
	})
	without := newFailure(tool.JSONRPCError, "no such method")
	without.RPC = []byte(`{"code":-32601,"message":"no such method"}`)
	w.addSkill("e").errs["resources/list"] = without
	if got := w.list(resource.Resources); got != "x:1 (a transport) (b needs_connection) (d no_principal)" {
		t.Error(got)
	}
}

func TestListsAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.addSkill("a")
	a.answers["resources/list"] = `{"resources":[{"uri":"x:1"}],"ttlMs":120000}`
	list := func(want int) {
		t.Helper()
		w.list(resource.Resources)
		if got := len(w.takeRequests()); got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	}
	list(1)
	list(0)
	w.at.Add(int64(59 * time.Second))
	list(0)
	w.at.Add(int64(time.Second)) // without notifications, lists expire after a minute
	list(1)
	w.service.Changed(w.offers[0].Skill.ID)
	list(1)
	w.service.Changed(uuid.New())
	list(0)
	w.offers[0].Server.Revision++
	list(1)
	a.answers["resources/list"] = `{"resources":[],"ttlMs":0}`
	w.service.Changed(w.offers[0].Skill.ID)
	list(1)
	w.at.Add(1)
	list(1)
	w.offers[0].Server.PerUser, w.offers[0].Server.Principal = true, uuid.New()
	a.answers["resources/list"] = `{"resources":[]}`
	list(1)
	w.offers[0].Server.Principal = uuid.New()
	list(1)
	list(0)
}

package ui_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The test of a skill whose server asks for a connection offers to connect it.
func TestConnectWithinATest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.registerGuarded(newAuthServer(t), agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	probe := func(err error) *answer {
		w.source.set(func() { w.source.steps = []tool.Step{{Name: "initialize", Err: err}} })
		return olga.post("/skills/"+skill.ID.String()+"/probe", nil)
	}
	if page := probe(&tool.Failure{Kind: tool.TransportFailure, Message: "no answer"}); page.find("connect").Length() != 0 {
		t.Errorf("a server that is away: %s", page.text())
	}
	page := probe(&tool.Failure{Kind: tool.TransportFailure, Message: "refused", Connect: &tool.Connect{Reason: "it needs a token"}})
	if form := page.find("connect-form"); form.AttrOr("action", "") != "/skills/"+skill.ID.String()+"/connect" || page.find("connect").Length() != 1 {
		t.Errorf("a server that asks for a connection: %s", page.text())
	}
}

// A skill that is not connected yet is not called failing.
func TestNotConnectedIsNotFailing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	skill := w.skillNamed("files")
	for kind, want := range map[string]string{tool.ProblemNeedsConnection: "Not connected yet", string(tool.TransportFailure): "Failing"} {
		w.db.Exec(`UPDATE skills SET listed_at = now(), list_error_kind = $2, list_error = 'x' WHERE id = $1`, skill.ID, kind)
		page := olga.get("/skills")
		if text := page.text(); !strings.Contains(text, want) || strings.Contains(text, "Failing") != (want == "Failing") {
			t.Errorf("%s: %s", kind, text)
		}
	}
}

// A form shows only the fields of the chosen authentication, without JavaScript too.
func TestFormShowsTheFieldsOfTheMethod(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 0, asUsual)
	w := h.walker()
	w.enter(scene{name: "credentials", path: h.draft + "/credentials", ready: "credentials-form"})
	w.page.Become(browsertest.Options{})
	for method, want := range map[string]string{
		"": "", tool.APIBearer: "auth.secret", tool.APIBasic: "auth.secret auth.username", tool.APIKey: "auth.secret auth.in auth.name",
	} {
		shown := browsertest.Eval[string](w.page, `(document.querySelector("[name='auth.type']").value = "`+method+`",
			["auth.secret", "auth.username", "auth.in", "auth.name"].filter((name) => document.querySelector("[name='" + name + "']").checkVisibility()).join(" "))`)
		if shown != want {
			t.Errorf("%q shows %q, want %q", method, shown, want)
		}
	}
}

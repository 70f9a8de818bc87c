package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/protected"
	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// TestOperatorSetsUpAnAgent sets up an agent for a protected server in the dashboard alone: the skill is registered and
// connected, the agent created, assigned tools and a key, and its first call decided.
func TestOperatorSetsUpAnAgent(t *testing.T) {
	t.Parallel()
	pw := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	w := &journey{world: pw.world, p: pw.startServer()}
	olga := w.openDesk(t, "olga", "operator", browsertest.Options{}, w.p.URL)
	olga.expects = append(olga.expects, "Failed to load resource: the server responded with a status of 404") // the authorization server has no icon
	olga.signIn("/skills")

	olga.Click("new-skill")
	olga.fillField("#f-name", "records")
	olga.fillField("#f-url", "not an address")
	olga.expectStatus(422)
	olga.Click("send")
	olga.Wait("problem-url")
	olga.fillField("#f-url", pw.skill.URL)
	olga.Click("send")
	olga.Wait("skill")
	olga.Click("ask")
	olga.WaitText("connection-state", "connect")
	olga.Click("connect")
	olga.WaitText("origin", pw.as.Issuer)
	olga.Click("continue")
	pw.allowAs(olga, "olga-there")
	olga.WaitText("notice", "Connected.")

	olga.Go(w.p.URL + "/agents")
	olga.Click("new-agent")
	olga.fillField("#f-name", "clerk")
	olga.Click("send")
	olga.Wait("assign-form")
	olga.Click("assign")
	olga.Wait("assign-tools")
	olga.chooseValue("#f-scope", "some")
	olga.WaitText("assign-tools", "record")
	olga.ClickOn(`[data-testid=assign-tools] input[name=tools][value=record]`)
	olga.Click("send")
	olga.WaitText("assignment", "records")
	olga.WaitText("sees", "records__record")
	if seen := olga.Text("sees"); strings.Contains(seen, "records__write") {
		t.Errorf("the agent sees %s", seen)
	}
	olga.Click("make-key")
	olga.Wait("key-itself")
	clerk := holdpoint.Agent{URL: w.p.URL, Name: "clerk", Key: strings.TrimSpace(olga.Text("key-itself"))}
	if command := olga.Text("command"); !strings.Contains(command, w.p.URL+"/agents/clerk/mcp") || !strings.Contains(command, clerk.Key) {
		t.Errorf("the command to connect is %s", command)
	}
	olga.Click("kept")
	olga.WaitText("keys-part", "Valid")

	done := newStubborn(clerk, w.p).beginCall(t.Context(), "records__record", `{"n":7}`)
	shown := w.awaitParked(7)
	olga.Go(w.p.URL + "/calls/" + shown.CallID)
	olga.Wait("no-actions") // operators cannot decide
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.openCall(shown)
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 7 of olga-there")
	wantTold(t, done, "recorded 7 of olga-there")
	if got := pw.skill.Subject("7"); got != "olga-there" {
		t.Errorf("called on behalf of %q", got)
	}
	olga.WaitText("outcome", "recorded 7") // her page updates itself too
	if answer, err := clerk.CallTool(t.Context(), "records__write", `{"n":8}`); err == nil && hasSucceeded(answer) || pw.skill.Count("8") != 0 {
		t.Errorf("the tool that was not assigned answers %s, %v", answer.Raw, err)
	}

	olga.Go(w.p.URL + "/agents")
	olga.ClickOn(`[data-testid=agent-row] a`)
	olga.ClickOn(`[data-testid=keys-part] summary`)
	olga.Click("revoke")
	olga.WaitText("keys-part", "Revoked")
	if answer, err := clerk.CallTool(t.Context(), "records__record", `{"n":9}`); err == nil {
		t.Errorf("the revoked key gets %s", answer.Raw)
	}
}

// allowAs signs in at the authorization server and consents.
func (w *protectedWorld) allowAs(d *desk, account string) {
	w.t.Helper()
	d.WaitFor("the page to sign in", `document.querySelector("form#login") !== null`)
	d.fillField("form#login input[name=account]", account)
	d.ClickOn("form#login button")
	d.WaitFor("the page to consent", `document.querySelector("form#consent") !== null`)
	d.ClickOn("form#consent button[data-testid=allow]")
}

// chooseValue selects a value of a field.
func (d *desk) chooseValue(selector, value string) {
	d.t.Helper()
	d.WaitFor("see "+selector, fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
	chosen := browsertest.Eval[bool](d.Page, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %q;
		field.dispatchEvent(new Event("change", {bubbles: true}));
		return field.value === %q;
	})()`, selector, value, value))
	if !chosen {
		d.t.Errorf("%s does not offer %s", selector, value)
	}
}

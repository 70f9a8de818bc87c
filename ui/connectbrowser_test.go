package ui_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// connectIn connects from the queue through the authorization server on another site and back.
func (w *world) connectIn(p *browsertest.Page, as *authServer) {
	w.t.Helper()
	p.Click("to-connect")
	p.Wait("skill")
	p.Screenshot("skill")
	p.Click("connect")
	p.WaitText("origin", as.url)
	p.Screenshot("leaving")
	p.Click("continue")
	p.Click("allow")
	p.WaitText("notice", "Connected.")
	p.Screenshot("connected")
}

func TestConnectInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	p := w.signInWith(browsertest.Options{})
	p.WaitFor("the stream", `document.documentElement.hasAttribute("data-live")`)
	browsertest.Eval[bool](p, `(window.untouched = true)`)
	w.refuseRequest(skill, uuid.Nil)
	id := w.submit(uuid.Nil, "guarded__save_csv", `{"filename":"one"}`)
	p.WaitText("waits", "guarded: save_csv") // without a reload
	if !browsertest.Eval[bool](p, "window.untouched === true") {
		t.Error("the page was loaded again")
	}
	p.WaitText("total", "1 needs a connection")
	p.Screenshot("queue")
	p.Press("j") // there is nothing to decide yet
	p.Press("a")
	w.connectIn(p, as)
	p.Go(w.server.URL)
	p.WaitText("row", "guarded: save_csv") // the call goes on to the reviewers
	p.WaitGone("waits")
	noComplaints(t, p)
	if waiting, err := w.calls.GetApproval(t.Context(), id); err != nil || waiting.Approval.Status != "pending" {
		t.Errorf("the call is %s, %v", waiting.Approval.Status, err)
	}
	as.set(func(as *authServer) {
		if len(as.referers) != 1 || as.referers[0] != "" {
			t.Errorf("the authorization server was told where the person came from: %q", as.referers)
		}
	})
}

func TestConnectWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	w.refuseRequest(skill, uuid.Nil)
	o := browsertest.Phone()
	o.NoScript = true
	p := w.signInWith(o)
	id := w.submit(uuid.Nil, "guarded__save_csv", `{"filename":"one"}`)
	p.Wait("wait") // the page updates itself
	p.Screenshot("queue")
	p.ClickOn("#wait-" + id.String() + " a")
	p.WaitText("reason", "asks for a connection, and there is none yet")
	p.Screenshot("call")
	w.connectIn(p, as)
	if path := p.Path(); !strings.HasPrefix(path, "/connections/") {
		t.Errorf("at the end the address is %s", path)
	}
	p.Click("disconnect")
	p.Wait("confirm-disconnect")
	p.Screenshot("disconnecting")
	p.Click("disconnect-really")
	p.WaitText("notice", "Disconnected.")
	p.Screenshot("disconnected")
}

func TestWaitingCallIsLiveInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	w.refuseRequest(skill, uuid.Nil)
	id := w.submit(uuid.Nil, "guarded__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{Dark: true})
	p.Go(w.server.URL + callPath(id))
	p.WaitText("wait", "You can connect it for everyone who uses it.")
	p.Screenshot("call")
	w.db.Exec(`UPDATE clock_offset SET value = interval '1 hour'`)
	if c := w.waitForEnd(id); c.Status != call.Expired {
		t.Fatalf("the call is %s", c.Status)
	}
	p.WaitText("outcome", "the skill was not connected in time")
	p.WaitGone("wait")
	noComplaints(t, p)
}

func TestConnectionsInAllColours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{Connection: agent.ConnectionPerUser})
	_, ritaID := w.signedInAs("rita", identity.Reviewer)
	w.refuseRequest(skill, ritaID)
	w.submit(ritaID, "guarded__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"invoices.csv"}`)
	for name, o := range map[string]browsertest.Options{
		"light": {}, "dark": {Dark: true}, "phone": browsertest.Phone(),
	} {
		p := w.signInWith(o)
		p.Wait("wait")
		p.Screenshot(name + " queue")
		p.Go(w.server.URL + "/connections")
		p.Wait("connections")
		p.Screenshot(name + " connections")
		p.Go(w.server.URL + "/skills")
		p.Wait("skills")
		p.Screenshot(name + " skills")
		p.Go(w.server.URL + "/skills/" + skill.ID.String())
		p.Wait("skill")
		if wide := browsertest.Eval[bool](p, "document.documentElement.scrollWidth > document.documentElement.clientWidth"); wide {
			t.Errorf("%s: the page is wider than its window", name)
		}
		p.Screenshot(name + " skill")
		noComplaints(t, p)
	}
}

package ui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// dictated returns a model that streams each word from the test, then the whole message.
func (w *world) dictated() (words chan string, whole chan *model.Response) {
	words, whole = make(chan string), make(chan *model.Response)
	w.model.does(func(ctx context.Context, _ *model.Request, sink func(model.Delta)) (*model.Response, error) {
		for {
			select {
			case word := <-words:
				sink(model.Delta{Text: word})
			case r := <-whole:
				return r, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	return words, whole
}

// typed returns the text in the message box.
const typed = `document.querySelector("#message").value`

// TestTalkInTheBrowser goes from the first word to a fork on a page that never reloads by itself.
func TestTalkInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	rita := w.signedIn("rita", identity.Reviewer)
	words, whole := w.dictated()
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + "/conversations")
	p.Click("start")
	p.Wait("start-form")
	p.Type("message", "Save the list of open invoices.")
	p.Screenshot("start")
	p.Click("start")
	p.WaitText("said", "Save the list of open invoices.")
	id := w.idOf(p.Path())
	browsertest.Eval[bool](p, `(window.untouched = true)`)

	words <- "First I look "
	p.WaitText("draft", "First I look")
	p.Type("message", "And tell me")
	words <- "at the ledger,"
	p.WaitText("draft", "First I look at the ledger,")
	p.Press(" when it is done") // the field is still focused, with the cursor at its end
	words <- " then I save the list."
	p.WaitText("draft", "then I save the list.")
	p.Screenshot("draft")
	whole <- newToolCalls("First I look at the ledger, then I save the list.", "files__save_csv", `{"filename":"open.csv"}`)
	p.WaitText("made", "open.csv")
	p.WaitText("standing", "Waiting for 1 call to end.")
	p.WaitGone("draft")
	p.Screenshot("parked")
	if kept := browsertest.Eval[string](p, typed); kept != "And tell me when it is done" {
		t.Errorf("typed %q", kept)
	}
	p.PressCtrlEnter()
	p.WaitText("pending", "And tell me when it is done")
	if left := browsertest.Eval[string](p, typed); left != "" || !browsertest.Eval[bool](p, `document.activeElement.id === "message"`) {
		t.Errorf("after sending, the box has %q, or lost the focus", left)
	}

	saved := w.callsOf(id)["files__save_csv"]
	w.approve(rita, saved)
	p.WaitText("made", "Approved by rita")
	p.WaitText("told", "Result of 1 call")
	words <- "It is"
	p.WaitText("draft", "It is")
	whole <- newReply("It is saved.")
	p.WaitText("standing", "Waiting for a message.")
	p.WaitText("entries", "It is saved.")
	p.Screenshot("idle")

	p.Type("message", "Now delete it.")
	p.Click("send")
	p.WaitText("standing", "The model is working.")
	words <- "I am about"
	p.WaitText("draft", "I am about")
	p.Click("stop")
	p.WaitText("news", "It was stopped.")
	p.WaitText("standing", "Waiting for a message.")
	if !browsertest.Eval[bool](p, "window.untouched === true") {
		t.Error("the page was loaded again")
	}

	w.model.does(nil)
	p.ClickOn(`#entry-2 [data-testid="fork"]`)
	p.WaitFor("the fork", fmt.Sprintf(`location.pathname.startsWith("/conversations/") && !location.pathname.endsWith(%q)`, id))
	p.WaitText("standing", "Waiting for a message.")
	if fork := w.idOf(p.Path()); fork == id || p.Count("said") != 1 {
		t.Errorf("the fork is %s with %d messages", fork, p.Count("said"))
	}
	noComplaints(t, p)
}

// The page of an idle conversation makes no requests while others have news.
func TestIdleTalkIsQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	mine, other := w.talk(uuid.Nil, "hello"), w.talk(uuid.Nil, "hello")
	w.waitForStatus(mine, converse.Idle)
	w.waitForStatus(other, converse.Idle)
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + talkPath(mine))
	p.WaitText("read-only", "only clients of the agent")
	asked := `performance.getEntriesByType("resource").filter(e => e.name.includes("known=")).length`
	p.WaitFor("the look that the first pulse has it take", asked+" >= 1")
	say := func(id uuid.UUID, text string) {
		_, err := w.talks.Say(t.Context(), converse.Viewer{AgentID: w.agent.ID}, id, text)
		check(t, err)
		w.waitForStatus(id, converse.Idle)
	}
	say(other, "something else")
	say(mine, "one more thing")
	p.WaitText("entries", "I heard: one more thing")
	if n := browsertest.Eval[int](p, asked); n > 6 {
		t.Errorf("it asked %d times", n)
	}
	noComplaints(t, p)
}

// The typed message survives the end of the session and leaving the page.
func TestTypedMessageIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	p := w.signInWith(browsertest.Options{})
	id := w.talk(w.personCalled("ana"), "hello")
	w.waitForStatus(id, converse.Idle)
	p.Go(w.server.URL + "/conversations/new")
	p.Wait("start-form")
	p.Type("message", "not yet")
	p.Go(w.server.URL + "/conversations/new")
	p.WaitFor("what was typed", typed+` === "not yet"`)
	p.Go(w.server.URL + talkPath(id))
	p.Wait("say")
	p.Type("message", "a long thought")
	w.db.Exec(`UPDATE person_sessions SET revoked_at = holdpoint_now()`)
	w.people.Invalidate()
	p.Wait("token")
	_, token, err := w.people.CreateToken(t.Context(), uuid.Nil, "ana", []identity.Role{identity.Operator}, nil)
	check(t, err)
	p.Type("token", token)
	p.Click("sign-in-token")
	p.Wait("say")
	if p.Path() != talkPath(id) {
		t.Errorf("after signing in the page is %s", p.Path())
	}
	p.WaitFor("what was typed", typed+` === "a long thought"`)
	p.Click("send")
	p.WaitText("entries", "I heard: a long thought")
	p.Go(w.server.URL + talkPath(id))
	p.Wait("say")
	p.WaitFor("the page to be ready", `document.documentElement.hasAttribute("data-ready")`)
	if left := browsertest.Eval[string](p, typed); left != "" {
		t.Errorf("what was sent is offered again: %q", left)
	}
}

// At the end of a conversation the page follows it as it grows. Further up it does not scroll.
func TestTalkScrolls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	id := w.talk(uuid.Nil, strings.Repeat("a line\n", 80))
	w.waitForStatus(id, converse.Idle)
	p := w.signInWith(browsertest.Options{})
	owner := w.talk(w.personCalled("ana"), strings.Repeat("a line\n", 80))
	w.waitForStatus(owner, converse.Idle)
	p.Go(w.server.URL + talkPath(owner))
	p.Wait("say")
	bottom := `Math.abs(scrollY + innerHeight - document.scrollingElement.scrollHeight) < 2`
	p.WaitFor("the end", bottom)
	say := func(text string) {
		_, err := w.talks.Say(t.Context(), converse.Viewer{AgentID: w.agent.ID, PrincipalID: w.personCalled("ana")}, owner, text)
		check(t, err)
		p.WaitText("entries", "I heard: "+text)
	}
	say("first")
	p.WaitFor("the new end", bottom)
	browsertest.Eval[bool](p, `(scrollTo(0, 300), true)`)
	say("second")
	if at := browsertest.Eval[float64](p, "scrollY"); at != 300 {
		t.Errorf("the page moved to %v", at)
	}
	noComplaints(t, p)
}

// Everything works without JavaScript: the page refreshes itself, but not while a message is typed.
func TestTalkWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	rita := w.signedIn("rita", identity.Reviewer)
	w.model.setReplies(newToolCalls("I save it.", "files__save_csv", `{"filename":"open.csv"}`), newReply("It is saved."))
	p := w.signInWith(browsertest.Options{NoScript: true})
	p.Go(w.server.URL + "/conversations/new?agent=billing")
	p.Type("message", "Save it.")
	p.Click("start")
	p.WaitText("made", "open.csv") // the page refreshes itself
	p.ClickOn(`#say noscript a`)
	p.Type("message", "Thank you.")
	p.Screenshot("held")
	p.Click("send")
	p.WaitText("pending", "Thank you.")
	w.approve(rita, w.callsOf(w.idOf(p.Path()))["files__save_csv"])
	p.WaitText("entries", "It is saved.")
	p.Click("close")
	p.Click("really-close")
	p.WaitText("standing", "Closed.")
}

// The key c goes from a call to its message in the conversation.
func TestKeyToTheWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	w.model.setReplies(newToolCalls("I save it.", "files__save_csv", `{"filename":"open.csv"}`))
	id := w.talk(uuid.Nil, "Save it.")
	w.waitForStatus(id, converse.Waiting)
	saved := w.callsOf(id)["files__save_csv"]
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + callPath(saved))
	p.WaitText("led", "Said by the agent’s model; not checked.")
	p.WaitFor("keys to work", armed)
	p.Press("c")
	p.WaitText("made", "open.csv")
	if hash := browsertest.Eval[string](p, "location.pathname + location.hash"); hash != talkPath(id)+"#entry-2" {
		t.Errorf("it leads to %s", hash)
	}
	check(t, w.talks.Stop(t.Context(), converse.Viewer{AgentID: w.agent.ID}, audit.System(), id))
	p.WaitText("made", "Cancelled")
	if c := w.waitForEnd(saved); c.Status != call.Cancelled {
		t.Errorf("the call is %s", c.Status)
	}
	noComplaints(t, p)
}

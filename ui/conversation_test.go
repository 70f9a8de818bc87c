package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// converse starts a conversation.
func (w *world) converse(principal uuid.UUID) *catalog.Conversation {
	w.t.Helper()
	c, err := w.catalog.StartConversation(w.t.Context(), w.agent, principal, "2025-11-25", nil)
	check(w.t, err)
	return c
}

// callTool makes a call in a conversation.
func (w *world) callTool(c *catalog.Conversation, name, arguments string) uuid.UUID {
	w.t.Helper()
	entry, ok := c.Catalog.Lookup(name)
	if !ok {
		w.t.Fatalf("no tool %s", name)
	}
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(w.t.Context(), call.Submission{
		Agent: w.agent, PrincipalID: c.PrincipalID, ConversationID: c.ID, Entry: entry, Arguments: clean,
	})
	check(w.t, err)
	return ticket.ID
}

func TestConversations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	if empty := v.get("/conversations"); !strings.Contains(empty.find("empty").Text(), "No conversations yet.") {
		t.Error("an empty list does not say so")
	}
	old := w.converse(w.someone("paula"))
	w.callTool(old, "files__save_csv", `{"filename":"one"}`)
	newer := w.converse(uuid.Nil)
	for i := range 3 {
		w.waitForEnd(w.callTool(newer, "open__echo", fmt.Sprintf(`{"i":%d}`, i)))
	}
	w.converse(uuid.Nil)
	a := v.get("/conversations")
	live := a.find("live").Find(`[data-testid="conversation-row"]`)
	if live.Length() != 1 || live.Find(`a[href="/conversations/`+old.ID.String()+`"]`).Length() != 1 || !strings.Contains(live.Text(), "1 Waiting") ||
		!strings.Contains(live.Text(), "paula") {
		t.Errorf("under way: %s", live.Text())
	}
	rows := a.find("conversation-row")
	if rows.Length() != 4 || !strings.Contains(rows.Eq(1).Text(), "no calls") || !strings.Contains(rows.Eq(2).Text(), "3 Done") {
		t.Errorf("%d rows: %s", rows.Length(), rows.Text())
	}
	for query, want := range map[string]int{"agent=billing": 4, "person=paula": 2, "person=olga": 0} {
		if got := v.get("/conversations?" + query).find("conversation-row").Length(); got != want {
			t.Errorf("%s: %d rows, want %d", query, got, want)
		}
	}
	for _, query := range []string{"agent=nobody", "person=nobody", "before=x"} {
		if bad := v.get("/conversations?" + query); bad.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", query, bad.status)
		}
	}
	for range 60 {
		w.converse(uuid.Nil)
	}
	first := v.get("/conversations")
	second := v.get(first.find("older").AttrOr("href", ""))
	if second.find("conversation-row").Length() != 13 || second.find("live").Length() != 0 {
		t.Errorf("second page: %d rows", second.find("conversation-row").Length())
	}
}

func TestConversationPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	c := w.converse(w.someone("paula"))
	path := "/conversations/" + c.ID.String()
	if empty := v.get(path); !strings.Contains(empty.find("empty").Text(), "No calls yet.") || !strings.Contains(empty.text(), "billing on behalf of paula") {
		t.Errorf("%s", empty.text())
	}
	rejected := w.callTool(c, "files__save_csv", `{"filename":"\u202eevil","password":"hunter2"}`)
	v.decide(rejected, "reject", "not there")
	done := w.callTool(c, "open__echo", `{"n":1}`)
	w.waitForEnd(done)
	w.callTool(c, "files__delete_file", `{"path":"/srv/x"}`)
	a := v.get(path)
	entries := a.find("entry")
	if entries.Length() != 3 {
		t.Fatalf("%d entries: %s", entries.Length(), a.text())
	}
	for i, want := range [][]string{
		{"Rejected", "files: save_csv", "U+202E", "Rejected by olga – not there"},
		{"Done", "open: echo", "The server answered."},
		{"Waiting", "files: delete_file", "/srv/x", "min"},
	} {
		text := strings.Join(strings.Fields(entries.Eq(i).Text()), " ")
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("entry %d lacks %q: %s", i, words, text)
			}
		}
	}
	if entries.Eq(0).Find(`a[href="/calls/`+rejected.String()+`"]`).Length() != 1 || strings.Contains(a.body, "hunter2") || strings.Contains(a.body, "\u202e") {
		t.Error("no link to the call, or something is shown that must not be")
	}
	if text := a.find("catalogue").Text(); !strings.Contains(text, "tools offered") || !strings.Contains(text, "files__save_csv") {
		t.Errorf("catalogue: %s", text)
	}
	if text := a.find("counts").Text(); !strings.Contains(text, "1 Waiting") || !strings.Contains(text, "1 Rejected") {
		t.Errorf("counts: %s", text)
	}

	if v.get(callPath(done)).doc.Find(`a[data-act="conversation"][href="`+path+`"]`).Length() != 1 {
		t.Error("no way from the call to its conversation")
	}
	part := a.find("conversation").AttrOr("hx-get", "")
	if same := v.get(part, "HX-Request", "true"); same.status != http.StatusNoContent {
		t.Errorf("what is on the screen: %d", same.status)
	}
	w.waitForEnd(w.callTool(c, "open__echo", `{"n":2}`))
	changed := v.get(part, "HX-Request", "true")
	if changed.status != http.StatusOK || changed.find("entry").Length() != 4 || changed.doc.Find("nav").Length() != 0 {
		t.Errorf("what changed: %d, %d entries", changed.status, changed.find("entry").Length())
	}
	if changed.doc.Find("#conversation[data-poll]").Length() != 1 {
		t.Error("an open conversation is not looked after")
	}
	for _, path := range []string{"/conversations/" + uuid.NewString(), "/conversations/x"} {
		if none := v.get(path); none.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, none.status)
		}
	}
}

func TestLongConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	c := w.converse(uuid.Nil)
	w.waitForEnd(w.callTool(c, "open__echo", `{"first":true}`))
	w.db.Exec(`INSERT INTO calls (id, agent_id, conversation_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments)
		SELECT (substr(id::text, 1, 8) || '-ffff-7fff-8000-' || lpad(to_hex(n), 12, '0'))::uuid, agent_id, conversation_id, skill_id, 1, false,
			'succeeded', tool, exposed_name, pin, convert_to('{"n":' || n || '}', 'UTF8')
		FROM calls, generate_series(1, 1200) AS n`)
	a := v.get("/conversations/" + c.ID.String())
	if a.find("entry").Length() != 100 || !strings.Contains(a.find("entry").Last().Text(), "1200") || !strings.Contains(a.find("counts").Text(), "of the last 1,000") {
		t.Errorf("%d entries, counts %s", a.find("entry").Length(), a.find("counts").Text())
	}
	pages := 1
	for next, more := a.find("earlier").Attr("href"); more; next, more = a.find("earlier").Attr("href") {
		a = v.get(next)
		pages++
	}
	if pages != 13 || a.find("entry").Length() != 1 || !strings.Contains(a.find("entry").Text(), "first") {
		t.Errorf("%d pages, the last has %s", pages, a.find("entry").Text())
	}
}

// Skills whose tools are missing are named with the reason.
func TestConversationProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	c := w.converse(uuid.Nil)
	w.db.Exec(`UPDATE conversations SET ended_at = holdpoint_now(),
		problems = '[{"skill":"files","kind":"needs_connection","error":"<b>\u202eno"}]'`)
	a := v.get("/conversations/" + c.ID.String())
	problem := a.find("skill-problem")
	if !strings.Contains(problem.Text(), "needs connection") || !strings.Contains(problem.Text(), "<b>") || !strings.Contains(problem.Text(), "U+202E") {
		t.Errorf("problem: %s", problem.Text())
	}
	if !strings.Contains(a.text(), "Ended") || a.doc.Find("#conversation[data-poll]").Length() != 0 || strings.Contains(a.body, "http-equiv") {
		t.Error("an ended conversation is still looked after")
	}
}

// The page of a conversation updates itself: parked calls by the stream, other calls by polling. Unfolded parts stay unfolded.
func TestLiveConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		<-release
		return tool.Result{Raw: []byte(`{"content":[{"type":"text","text":"at last"}]}`)}, nil
	})
	c := w.converse(uuid.Nil)
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + "/conversations/" + c.ID.String())
	p.Wait("empty")
	p.ClickOn(`[data-testid="catalogue"] summary`)
	browsertest.Eval[bool](p, `(window.untouched = true)`)

	parked := w.callTool(c, "files__save_csv", `{"filename":"report.csv"}`)
	p.WaitText("entries", "report.csv")
	p.WaitText("entries", "Waiting")
	echoed := w.callTool(c, "open__echo", `{"message":"hello"}`) // auto-approved, so not in the stream
	p.WaitText("entries", "hello")
	p.WaitText("entries", "The call was sent; the reply is pending.")
	p.Screenshot("live")
	close(release)
	w.waitForEnd(echoed)
	p.WaitText("entries", "The server answered.")
	_, err := w.calls.Cancel(t.Context(), call.Viewer{}, uuid.New(), parked)
	check(t, err)
	p.WaitText("entries", "Cancelled")
	if !browsertest.Eval[bool](p, `window.untouched === true && document.querySelector("[data-testid=catalogue]").open`) {
		t.Error("the page was loaded again, or folded what was unfolded")
	}
	quiet := `performance.getEntriesByType("resource").filter(e => e.name.includes("known=") && e.responseStatus === 204).length`
	p.WaitFor("an answer that nothing changed", quiet+" > 0")
	check(t, w.catalog.EndConversation(t.Context(), w.agent.ID, uuid.Nil, c.ID))
	p.WaitText("conversation", "Ended")
	p.WaitFor("asking to end", `!document.querySelector("[data-poll]")`)
	noComplaints(t, p)
}

// A conversation is called by its first message; without one by its agent, its client and its start.
func TestConversationTitles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	v := w.signedIn("paula", identity.Operator, identity.Reviewer)
	client := json.RawMessage(`{"clientInfo":{"name":"Quill\u202e <b>","version":"1"}}`)
	held, err := w.catalog.StartConversation(t.Context(), w.agent, uuid.Nil, "2025-11-25", client)
	check(t, err)
	unnamed := w.converse(uuid.Nil)
	w.model.setReplies(newToolCalls("I save it.", "files__save_csv", `{"filename":"list.csv"}`))
	path := v.started("\n  Save the \u202elist <b>now</b>, " + strings.Repeat("please ", 20) + "\nand more")
	id := w.idOf(path)
	w.waitForStatus(id, converse.Waiting)
	const want = "Save the U+202Elist <b>now</b>, please please please"
	titles := v.get("/conversations").find("title")
	if got := cells(titles); strings.Count(got, want) != 2 || strings.Contains(got, "and more") || !strings.Contains(got, "…") {
		t.Errorf("the titles in the list are %s", got)
	}
	for _, c := range []struct {
		id    uuid.UUID
		title string
	}{
		{held.ID, "billing · QuillU+202E <b> · " + held.CreatedAt.UTC().Format("2 Jan 2006, 15:04 UTC")},
		{unnamed.ID, "billing · " + unnamed.CreatedAt.UTC().Format("2 Jan 2006, 15:04 UTC")},
		{id, want},
	} {
		page := v.get("/conversations/" + c.id.String())
		if got := squeezeText(page.doc.Find(`h1[data-testid="title"]`).Text()); !strings.HasPrefix(got, c.title) || page.doc.Find("h1 b").Length() != 0 {
			t.Errorf("the title is %q, want %q", got, c.title)
		}
		if window := page.doc.Find("title").First().Text(); strings.Contains(window, "\u202e") || !strings.Contains(window, "Holdpoint") {
			t.Errorf("the window is %q", window)
		}
	}
	for _, c := range w.callsOf(id) {
		if got := squeezeText(v.get(callPath(c)).doc.Find("#call").Text()); !strings.Contains(got, "Conversation "+want) {
			t.Errorf("the call's page does not have the title: %s", got)
		}
	}
}

package ui_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// squeezeText returns a text with its white space collapsed.
func squeezeText(text string) string { return strings.Join(strings.Fields(text), " ") }

// started begins a conversation with the form, and returns its path.
func (v *visitor) started(message string) string {
	v.w.t.Helper()
	form := v.get("/conversations/new?agent=billing").form("start-form")
	form.Set("agent", "billing")
	form.Set("message", message)
	a := v.post("/conversations/new", form)
	path := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(path, "/conversations/") {
		v.w.t.Fatalf("start: %d to %q: %s", a.status, path, a.text())
	}
	return path
}

func (w *world) idOf(path string) uuid.UUID {
	w.t.Helper()
	id, err := uuid.Parse(strings.TrimPrefix(path, "/conversations/"))
	check(w.t, err)
	return id
}

func TestTalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	paula, rita := w.signedIn("paula", identity.Operator, identity.Reviewer), w.signedIn("rita", identity.Reviewer)
	w.model.setReplies(newToolCalls("I save the list, as you asked.", "files__save_csv", `{"filename":"list.csv"}`, "nothing__such", `{}`, "open__echo", `{"message":"a"}`))
	path := paula.started("Save the \u202elist.")
	id := w.idOf(path)
	w.waitForStatus(id, converse.Waiting)
	w.waitForEnd(w.callsOf(id)["open__echo"])
	a := paula.get(path)
	for testID, wants := range map[string][]string{
		"said":      {"paula", "Save the U+202Elist.", "Fork from here"},
		"reply":     {"billing", "quill-2", "1,200 input tokens, 80 output tokens", "I save the list, as you asked.", "Waiting", "files: save_csv", "list.csv", "min", "Done", "open: echo"},
		"not-made":  {"No call", "nothing__such"},
		"standing":  {"Waiting for 1 call to end.", "Stop", "Close"},
		"totals":    {"1 model request", "cost 0.0048"},
		"say":       {"Message to the agent", "another reviewer has to approve"},
		"catalogue": {"tools offered"},
	} {
		for _, want := range wants {
			if text := squeezeText(a.find(testID).Text()); !strings.Contains(text, want) {
				t.Errorf("%s lacks %q: %s", testID, want, text)
			}
		}
	}
	if strings.Contains(a.body, "\u202e") || a.find("reply").Find(`[data-testid="fork"]`).Length() != 0 {
		t.Error("what nobody sees is in the page, or a reply can be forked whose calls have not ended")
	}
	if a.doc.Find("#conversation[data-poll]").Length() != 0 || !strings.Contains(a.body, `http-equiv="refresh"`) || a.find("read-only").Length() != 0 {
		t.Error("the page asks again although it is told, or does not renew itself without JavaScript, or is read-only")
	}
	if held := paula.get(path + "?hold=1"); strings.Contains(held.body, `http-equiv="refresh"`) {
		t.Error("the page renews itself although somebody wants to write")
	}

	looked := rita.get(path)
	if text := looked.find("read-only").Text(); !strings.Contains(text, "only paula writes in this conversation") || looked.find("say").Length()+looked.find("stop").Length()+looked.find("fork").Length() != 0 {
		t.Errorf("somebody else is told %q, and is offered to speak", text)
	}
	saved := w.callsOf(id)["files__save_csv"]
	if own := paula.get(callPath(saved)); own.find("decide").Length() != 0 {
		t.Error("who speaks may decide")
	}
	w.approve(rita, saved)
	w.waitForStatus(id, converse.Idle)
	a = paula.get(path)
	replies := a.find("reply")
	if replies.Length() != 2 || !strings.Contains(replies.Last().Text(), "I heard:") || replies.First().Find(`[data-testid="fork"]`).Length() != 1 {
		t.Errorf("%d replies: %s", replies.Length(), replies.Text())
	}
	if told := squeezeText(a.find("told").Text()); !strings.Contains(told, "Results of 3 calls") || !strings.Contains(told, "Saved 2 rows") || !strings.Contains(told, "A reviewer approved this call") {
		t.Errorf("told: %s", told)
	}
	if text := a.find("standing").Text(); !strings.Contains(text, "Waiting for a message.") || strings.Contains(a.body, `http-equiv="refresh"`) {
		t.Errorf("an idle conversation says %q, or renews itself without JavaScript", text)
	}
	if row := squeezeText(paula.get("/conversations").find("conversation-row").First().Text()); !strings.Contains(row, "Idle") {
		t.Errorf("the list does not say how it stands: %s", row)
	}
}

// The form keeps a message that cannot be sent.
func TestSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	paula, rita := w.signedIn("paula", identity.Operator), w.signedIn("rita", identity.Reviewer)
	for _, form := range []url.Values{{"agent": {"nobody"}, "message": {"hello there"}}, {"agent": {"billing"}, "message": {" \n "}}} {
		a := paula.post("/conversations/new", form)
		if a.status != http.StatusUnprocessableEntity || a.form("start-form").Get("message") != form.Get("message") || a.find("form-error").Length() != 1 {
			t.Errorf("%v: %d %s", form, a.status, a.text())
		}
	}
	if a := rita.get("/conversations/new"); a.find("empty").Length() != 1 || rita.get("/conversations").find("start").Length() != 0 {
		t.Error("somebody who may act as no agent is offered to start a conversation")
	}
	if a := rita.post("/conversations/new", url.Values{"agent": {"billing"}, "message": {"hello"}}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("somebody who may act as no agent starts one: %d", a.status)
	}
	agentPage := "/agents/" + w.agent.ID.String()
	if paula.get(agentPage).find("start").AttrOr("href", "") != "/conversations/new?agent=billing" || rita.get(agentPage).find("start").Length() != 0 {
		t.Error("the agent's page does not offer it to whom it should")
	}
	path := paula.started("hello")
	w.waitForStatus(w.idOf(path), converse.Idle)
	if a := paula.post(path+"/messages", url.Values{"message": {"two\r\nlines"}}); a.status != http.StatusSeeOther {
		t.Fatalf("say: %d %s", a.status, a.text())
	}
	w.waitForStatus(w.idOf(path), converse.Idle)
	form := paula.get(path).form("say")
	form.Set("message", "once")
	for range 2 {
		if a := paula.post(path+"/messages", form); a.status != http.StatusSeeOther {
			t.Fatalf("say it again: %d %s", a.status, a.text())
		}
	}
	w.waitForStatus(w.idOf(path), converse.Idle)
	if said := paula.get(path).find("said"); said.Length() != 3 || !strings.Contains(said.Last().Text(), "once") {
		t.Errorf("a form that is sent twice says: %s", said.Text())
	}
	form.Set("message", "otherwise")
	if a := paula.post(path+"/messages", form); a.status != http.StatusConflict || a.form("say").Get("message") != "otherwise" {
		t.Errorf("another message with the form of one before: %d", a.status)
	}
	if last := squeezeText(paula.get(path).find("said").Eq(1).Text()); !strings.Contains(last, `two\n lines`) || strings.Contains(last, `\r`) {
		t.Errorf("said: %s", last)
	}
	for _, text := range []string{"", "x\x00\xff", strings.Repeat("x", converse.MaxMessageBytes+1)} {
		for _, header := range [][]string{nil, {"HX-Request", "true"}} {
			a := paula.post(path+"/messages", url.Values{"message": {text}}, header...)
			want := strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
			if a.status != http.StatusUnprocessableEntity || a.form("say").Get("message") != want || a.find("form-error").Length() != 1 ||
				(a.doc.Find("nav").Length() == 0) != (header != nil) {
				t.Errorf("%.10q: %d", text, a.status)
			}
		}
	}
	if a := paula.post(path+"/messages", url.Values{"message": {"again"}}, "HX-Request", "true"); a.status != http.StatusOK || a.form("say").Get("message") != "" {
		t.Errorf("part: %d", a.status)
	}
	for _, act := range []string{"messages", "stop", "close", "fork"} {
		if a := rita.post(path+"/"+act, url.Values{"message": {"mine"}, "seq": {"1"}, "confirmed": {"yes"}}); a.status != http.StatusForbidden {
			t.Errorf("somebody else may %s: %d", act, a.status)
		}
		if a := paula.post("/conversations/"+uuid.NewString()+"/"+act, url.Values{"message": {"x"}}); a.status != http.StatusNotFound {
			t.Errorf("%s in no conversation: %d", act, a.status)
		}
	}
	other := w.converse(uuid.Nil)
	if a := paula.post(talkPath(other.ID)+"/messages", url.Values{"message": {"x"}}); a.status != http.StatusNotFound {
		t.Errorf("saying something to somebody else's program: %d", a.status)
	}
}

func TestStopForkClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	paula := w.signedIn("paula", identity.Operator)
	w.model.setReplies(newReply("It is noted."), newToolCalls("", "files__delete_file", `{"path":"/srv/x"}`))
	path := paula.started("Note this.")
	id := w.idOf(path)
	w.waitForStatus(id, converse.Idle)
	paula.post(path+"/messages", url.Values{"message": {"Delete it."}})
	w.waitForStatus(id, converse.Waiting)
	paula.post(path+"/messages", url.Values{"message": {"Wait!"}})
	waiting := paula.get(path)
	if text := squeezeText(waiting.find("pending").Text()); !strings.Contains(text, "paula") || !strings.Contains(text, "Wait!") || !strings.Contains(text, "Queued") {
		t.Errorf("a message that waits: %s", text)
	}
	if !strings.Contains(waiting.text(), "The model gave no reason for its calls.") {
		t.Error("that no reason was given is not said")
	}
	if a := paula.post(path+"/fork", url.Values{"seq": {"4"}}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "a reply whose calls have ended") {
		t.Errorf("fork at a call that waits: %d %s", a.status, a.text())
	}
	w.model.setReplies(newReply("A list, then."))
	if a := paula.post(path+"/stop", nil, "HX-Request", "true"); a.status != http.StatusOK || a.find("conversation").Length() != 1 {
		t.Errorf("stop: %d", a.status)
	}
	w.waitForStatus(id, converse.Idle)
	stopped := paula.get(path)
	if c := w.waitForEnd(w.callsOf(id)["files__delete_file"]); c.Status != call.Cancelled || !strings.Contains(stopped.find("news").Text(), "It was stopped.") {
		t.Errorf("the call is %s: %s", c.Status, stopped.find("news").Text())
	}
	if a := paula.post(path+"/stop", nil); a.status != http.StatusSeeOther {
		t.Errorf("stopping what is idle: %d", a.status)
	}

	forked := paula.post(path+"/fork", url.Values{"seq": {"2"}}).header.Get("Location")
	if forked == path || !strings.HasPrefix(forked, "/conversations/") {
		t.Fatalf("forked to %q", forked)
	}
	other := paula.get(forked)
	if other.find("said").Length() != 1 || other.find("reply").Length() != 1 || other.doc.Find(`a[href="`+path+`"]`).Length() != 1 {
		t.Errorf("the fork: %s", other.text())
	}

	asked := paula.post(path+"/close", nil)
	if asked.status != http.StatusOK || asked.find("confirm-close").Length() != 1 || w.waitForStatus(id, converse.Idle).Status != converse.Idle {
		t.Errorf("closing asks %d", asked.status)
	}
	if a := paula.post(path+"/close", asked.form("confirm-close")); a.status != http.StatusSeeOther {
		t.Fatalf("close: %d %s", a.status, a.text())
	}
	w.waitForStatus(id, converse.Ended)
	closed := paula.get(path)
	if closed.find("say").Length() != 0 || !strings.Contains(closed.find("standing").Text(), "Closed.") || !strings.Contains(closed.find("state").Text()+closed.text(), "Ended") ||
		closed.find("fork").Length() == 0 {
		t.Errorf("closed: %s", closed.text())
	}
	late := paula.post(path+"/messages", url.Values{"message": {"One more thing"}})
	if late.status != http.StatusConflict || late.find("draft").Text() != "One more thing" {
		t.Errorf("too late: %d, kept %q", late.status, late.find("draft").Text())
	}
}

// Long conversations are split into parts. A link leads to the part with an entry.
func TestLongTalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	paula := w.signedIn("paula", identity.Operator)
	long := strings.Repeat("All work and no play.\n", 500)
	path := paula.started(long)
	id := w.idOf(path)
	w.waitForStatus(id, converse.Idle)
	w.db.Exec(`INSERT INTO loop_entries (conversation_id, seq, kind, data)
		SELECT conversation_id, seq + n, 'user', json_build_object('id', gen_random_uuid(), 'text', 'Message ' || (seq + n)) FROM loops, generate_series(1, 248) AS n`)
	w.db.Exec(`UPDATE loops SET seq = seq + 248`)
	latest := paula.get(path)
	if latest.find("said").Length() != 100 || latest.find("latest").Length() != 0 || latest.doc.Find("#entry-250").Length() != 1 {
		t.Errorf("the latest: %d", latest.find("said").Length())
	}
	if text := squeezeText(latest.doc.Find("#entry-250").Text()); !strings.Contains(text, "A client of the agent") {
		t.Errorf("a message of nobody: %s", text)
	}
	middle := paula.get(latest.find("earlier").AttrOr("href", ""))
	if middle.doc.Find("#entry-150").Length() != 1 || middle.doc.Find("#entry-51").Length() != 1 || middle.find("latest").Length() != 1 || middle.find("say").Length() != 0 {
		t.Error("the middle is not there")
	}
	first := paula.get(middle.find("earlier").AttrOr("href", ""))
	if first.doc.Find("#entry-1").Length() != 1 || first.find("earlier").Length() != 0 {
		t.Error("the first is not there")
	}
	if cut := first.find("cut").First().Text(); !strings.Contains(cut, "+409 lines") {
		t.Errorf("a long message is cut: %q", cut)
	}
	whole := paula.get(first.find("as-text").First().AttrOr("href", ""))
	if whole.body != long || !strings.HasPrefix(whole.header.Get("Content-Type"), "text/plain") || !strings.HasPrefix(whole.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("all of it: %d bytes, %v", len(whole.body), whole.header)
	}
	for seq, want := range map[int]bool{1: true, 20: true, 100: true, 240: true, 250: true, 999: false} {
		text := strconv.Itoa(seq)
		if got := paula.get(path+"?entry="+text).doc.Find("#entry-"+text).Length() == 1; got != want {
			t.Errorf("entry %d is there: %v", seq, got)
		}
	}
	for _, bad := range []string{"/entries/0", "/entries/x", "/entries/999"} {
		if a := paula.get(path + bad); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", bad, a.status)
		}
	}
	part := latest.find("conversation").AttrOr("hx-get", "")
	if same := paula.get(part, "HX-Request", "true"); same.status != http.StatusNoContent {
		t.Errorf("what is on the screen: %d", same.status)
	}
}

// A reviewer sees the messages before a call, marked as unverified.
func TestWhatLedToACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	paula, rita := w.signedIn("paula", identity.Operator), w.signedIn("rita", identity.Reviewer)
	w.model.setReplies(newToolCalls("</div><button data-act=\"approve\">Approve</button>\u202eAll reviewers agreed already."+strings.Repeat("\nApproved ✔", 40), "files__save_csv", `{"filename":"x"}`),
		newToolCalls("", "files__delete_file", `{"path":"y"}`))
	path := paula.started("Save it, " + strings.Repeat("please ", 300))
	id := w.idOf(path)
	w.waitForStatus(id, converse.Waiting)
	saved := w.callsOf(id)["files__save_csv"]
	a := rita.get(callPath(saved))
	led := a.find("led")
	text := squeezeText(led.Text())
	for _, want := range []string{"Last message before the call, from paula", "Save it, please", "Said by the agent’s model; not checked.", "U+202EAll reviewers", "+31 lines", "characters not shown"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q: %s", want, text)
		}
	}
	if led.Find("button").Length() != 0 || strings.Contains(a.body, "\u202e") {
		t.Error("what the model said became part of the page")
	}
	link := led.Find(`a[data-act="conversation"]`).AttrOr("href", "")
	if link != path+"?entry=2#entry-2" || a.find("why").Find(`[data-testid="conversation"]`).AttrOr("href", "") != link {
		t.Errorf("it leads to %q", link)
	}
	if rita.get(link).doc.Find("#entry-2").Find(`[id="entry-`+saved.String()+`"]`).Length() != 1 {
		t.Error("the reply is not where the link leads")
	}
	w.approve(rita, saved)
	w.waitForEnd(saved)
	if rita.get(callPath(saved)).find("led").Length() != 1 {
		t.Error("once decided, it is not said any more what led to it")
	}
	w.waitForStatus(id, converse.Waiting)
	if text := rita.get(callPath(w.callsOf(id)["files__delete_file"])).find("led").Text(); !strings.Contains(text, "The model gave no reason.") {
		t.Errorf("without a reason: %s", text)
	}
	if rita.get(callPath(w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`))).find("led").Length() != 0 {
		t.Error("something is said to have led to a call of a client")
	}
}

// Calls that ask an agent are shown as such on all pages.
func TestAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	answer := make(chan struct{})
	w.model.does(func(ctx context.Context, r *model.Request, _ func(model.Delta)) (*model.Response, error) {
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return newReply("I heard: " + lastWords(r)), ctx.Err()
	})
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	client := w.converse(w.someone("paula"))
	entry, ok := client.Catalog.Lookup(catalog.AskTool)
	if !ok {
		t.Fatal("an agent with a model cannot be asked")
	}
	ticket, err := w.talks.Ask(t.Context(), converse.Question{
		Agent: w.agent, Principal: client.PrincipalID, Conversation: client.ID, Entry: entry, Arguments: []byte(`{"message":"What is open?"}`),
	})
	check(t, err)
	a := v.get(callPath(ticket.ID))
	if a.status != http.StatusOK || !strings.Contains(squeezeText(a.doc.Find("#sentence").Text()), "A client asked the agent billing on behalf of paula") {
		t.Errorf("%d: %s", a.status, a.doc.Find("#sentence").Text())
	}
	answering := a.find("answering").AttrOr("href", "")
	page := v.get(answering)
	if page.status != http.StatusOK || page.find("said").Find(`a[href="`+callPath(ticket.ID)+`"]`).Length() != 1 || !strings.Contains(page.find("said").Text(), "What is open?") {
		t.Errorf("where it is answered: %d %s", page.status, page.text())
	}
	close(answer)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Fatalf("the question is %s", c.Status)
	}
	done := v.get(callPath(ticket.ID))
	if done.find("answering").AttrOr("href", "") != answering || !strings.Contains(done.find("outcome").Text(), "I heard: What is open?") {
		t.Errorf("answered: %s", done.text())
	}
	for _, path := range []string{"/calls", "/calls?tool=ask", talkPath(client.ID), "/conversations", "/insights?range=24h", "/audit", "/agents/" + w.agent.ID.String(), "/calls/export?format=csv"} {
		if a := v.get(path); a.status != http.StatusOK {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if entry := squeezeText(v.get(talkPath(client.ID)).find("entry").Text()); !strings.Contains(entry, "ask") || !strings.Contains(entry, "What is open?") {
		t.Errorf("in the client's conversation: %s", entry)
	}
}

// A limit ends a conversation, and the page says so.
func TestTalkEndsByItsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.UpdateAgent(t.Context(), audit.System(), w.agent.ID, agent.AgentPatch{Limits: &agent.Limits{ConversationTurns: 1}})
	check(t, err)
	w.withModel()
	paula := w.signedIn("paula", identity.Operator)
	path := paula.started("hello")
	w.waitForStatus(w.idOf(path), converse.Idle)
	paula.post(path+"/messages", url.Values{"message": {"and?"}})
	w.waitForStatus(w.idOf(path), converse.Ended)
	a := paula.get(path)
	if !strings.Contains(a.find("standing").Text(), "limit of model requests") || a.find("say").Length() != 0 || !strings.Contains(a.find("news").Text(), "1") {
		t.Errorf("ended: %s / %s", a.find("standing").Text(), a.find("news").Text())
	}
}

// A repeated form begins one conversation, whether at once or later.
func TestOneFormStartsOneTalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withModel()
	v := w.signedIn("paula", identity.Operator)
	for range 3 {
		w.model.setReplies(newToolCalls("Done.", "open__echo", `{"message":"a"}`))
	}
	form := v.get("/conversations/new?agent=billing").form("start-form")
	form.Set("agent", "billing")
	form.Set("message", "do it")
	went := make(chan string, 2)
	for range 2 {
		go func() { went <- v.post("/conversations/new", form).header.Get("Location") }()
	}
	first := <-went
	if again, later := <-went, v.post("/conversations/new", form).header.Get("Location"); first == "" || again != first || later != first {
		t.Errorf("it leads to %q, %q and %q", first, again, later)
	}
	loops := 0
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM loops`).Scan(&loops))
	if loops != 1 {
		t.Errorf("%d conversations", loops)
	}
	form.Set("message", "do something else")
	if other := v.post("/conversations/new", form).header.Get("Location"); other == first {
		t.Error("what was said after going back is lost")
	}
	if another := v.started("do it"); another == first {
		t.Error("another form goes on with the first one's conversation")
	}
}

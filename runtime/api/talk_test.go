package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// numbers converts integers to those of a decoded body.
func toNumbers(t *testing.T, v any) string {
	t.Helper()
	n, ok := v.(json.Number)
	if !ok {
		t.Fatalf("%v is no number", v)
	}
	return n.String()
}

func TestConverse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	created := w.post("conversations", w.key, `{"message":"hello"}`).wantStatus(t, 201)
	path := "conversations/" + created["id"].(string)
	if created["agent"] != "billing" || created["principal"] != nil || len(created["tools"].([]any)) != 3 {
		t.Errorf("created %v", created)
	}
	w.followUntil(server, path, "idle")
	loop := w.getConversation(path)
	for field, want := range map[string]string{"last_seq": "2", "turns": "1", "input_tokens": "10", "output_tokens": "2", "open_calls": "0", "cost": "0"} {
		if got := toNumbers(t, loop[field]); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	if loop["code"] != nil || loop["stopping"] != false || loop["forked_from"] != nil || len(loop["pending"].([]any)) != 0 {
		t.Errorf("loop %v", loop)
	}
	listed := listItems(t, w.get("conversations", w.key).wantStatus(t, 200))[0].(map[string]any)
	if of := listed["loop"].(map[string]any); of["status"] != "idle" || of["pending"] != nil {
		t.Errorf("listed %v", listed)
	}
	if listed["title"] != "hello" {
		t.Errorf("the title is %v", listed["title"])
	}

	said := w.post(path+"/messages", w.key, `{"message":"write, please"}`).wantStatus(t, 202)
	if said["pending"] != false || said["message"].(map[string]any)["text"] != "write, please" {
		t.Errorf("got %v", said)
	}
	w.followUntil(server, path, "waiting")
	if said := w.post(path+"/messages", w.key, `{"message":"and then?"}`).wantStatus(t, 202); said["pending"] != true {
		t.Errorf("got %v", said)
	}
	loop = w.getConversation(path)
	waits := loop["pending"].([]any)[0].(map[string]any)
	if toNumbers(t, loop["open_calls"]) != "1" || waits["text"] != "and then?" {
		t.Errorf("loop %v", loop)
	}
	w.approveOnly()
	w.followUntil(server, path, "idle")
	w.seeMessages(path)
}

// The work on a message belongs to the trace of its client.
func TestTraceOfAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := "conversations/" + w.post("conversations", w.key, `{}`).wantStatus(t, 201)["id"].(string)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/"+path+"/messages", strings.NewReader(`{"message":"write, please"}`))
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusAccepted {
		t.Fatalf("%d %s", recorder.Code, recorder.Body)
	}
	w.followUntil(server, path, "waiting")
	var stored []byte
	if err := w.db.Pool().QueryRow(t.Context(), `SELECT trace FROM calls WHERE status = 'parked'`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if got := telemetry.ReadPending(stored).TraceID(); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the call is of trace %q", got)
	}
}

// seeMessages reads all entries of TestConverse, page by page.
func (w *world) seeMessages(path string) {
	t := w.t
	t.Helper()
	var all []map[string]any
	for cursor := ""; ; {
		page := w.get(path+"/messages?limit=3"+cursor, w.key).wantStatus(t, 200)
		for _, item := range listItems(t, page) {
			all = append(all, item.(map[string]any))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	var kinds []string
	for i, e := range all {
		kind := e["kind"].(string)
		kinds = append(kinds, kind)
		if toNumbers(t, e["seq"]) != strconv.Itoa(i+1) || e[kind] == nil || len(e) != 4 {
			t.Errorf("entry %d: %v", i, e)
		}
	}
	const want = "user assistant user assistant call call call tools user assistant"
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("kinds %s, want %s", got, want)
	}
	wish := all[3]["assistant"].(map[string]any)["calls"].([]any)[0].(map[string]any)
	if all[3]["assistant"].(map[string]any)["text"] != "I will write." || wish["name"] != "files__write" || wish["arguments"] != `{"n":1}` || wish["refused"] != nil {
		t.Errorf("reply %v", all[3])
	}
	var statuses []string
	for _, e := range all[4:7] {
		of := e["call"].(map[string]any)
		if of["id"] != wish["call_id"] || of["tool"] != "files__write" {
			t.Errorf("call %v", e)
		}
		statuses = append(statuses, of["status"].(string))
	}
	if got := strings.Join(statuses, " "); got != "parked approved succeeded" {
		t.Errorf("the call was %s", got)
	}
	result := all[7]["tools"].(map[string]any)["results"].([]any)[0].(map[string]any)
	if result["call_id"] != wish["call_id"] || result["is_error"] != false || !strings.Contains(result["text"].(string), "<ok>") {
		t.Errorf("result %v", result)
	}
	if answer := all[9]["assistant"].(map[string]any); answer["text"] != "You said: and then?" || answer["model"] != "oracle-1" || answer["stop"] != "end" {
		t.Errorf("answer %v", answer)
	}
}

func TestConverseRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post("conversations", w.key, `{}`).wantProblem(t, 409, "no_model")
	w.setModel("billing")
	w.post("conversations", w.key, `{"agent":"other"}`).wantProblem(t, 404, "not_found")
	w.post("conversations", w.operator, `{"agent":"other"}`).wantProblem(t, 404, "not_found") // may not act as it
	w.post("conversations", w.operator, `{"agent":"nobody"}`).wantProblem(t, 404, "not_found")
	w.post("conversations", w.operator, `{}`).wantProblem(t, 422, "invalid_request")
	w.get("conversations/latest", w.operator).wantProblem(t, 422, "invalid_request")
	w.get("conversations/latest?agent=billing", w.operator).wantProblem(t, 404, "not_found")
	w.get("conversations/latest?agent=other", w.operator).wantProblem(t, 404, "not_found")

	path := w.startConversation(w.key, `{}`)
	w.post(path+"/cancel", w.key, "").wantProblem(t, 409, "conversation_idle")
	for _, body := range []string{
		`{"message":""}`, `{"message":"  "}`, `{"message":"` + nul + `"}`, `{"message":"` + strings.Repeat("x", 256<<10+1) + `"}`, `{}`, `{"message":7}`,
	} {
		v := w.post(path+"/messages", w.key, body).wantProblem(t, 422, "invalid_request")
		if errs, _ := json.Marshal(v["errors"]); !strings.Contains(string(errs), `message`) {
			t.Errorf("%.30s: %v", body, v)
		}
	}
	w.post(path+"/messages", w.key, "{\"message\":\"\xff\"}").wantProblem(t, 400, "invalid_request")
	w.post(path+"/messages", w.key, `{"message":"`+strings.Repeat(`\u0061`, 256<<10)+`"}`).wantStatus(t, 202)
	w.post("conversations", w.key, `{"message":"`+nul+`"}`).wantProblem(t, 422, "invalid_request")
	for _, query := range []string{"after=-1", "after=x", "after=99"} {
		w.get(path+"/events?"+query, w.key).wantProblem(t, 422, "invalid_request")
	}
	for _, id := range []string{"x", "-1", "99"} {
		header := http.Header{"Authorization": {"Bearer " + w.key}, "Last-Event-Id": {id}}
		v := w.sendHeaders(t, "/api/v1/"+path+"/events", header).wantProblem(t, 422, "invalid_request")
		if errs, _ := json.Marshal(v["errors"]); !strings.Contains(string(errs), "header.Last-Event-ID") {
			t.Errorf("Last-Event-ID %s: %v", id, v)
		}
	}
	w.get(path+"/messages?cursor=x", w.key).wantProblem(t, 422, "invalid_request")
	w.post(path+"/fork", w.key, `{"seq":0}`).wantProblem(t, 422, "invalid_request")
	w.post(path+"/fork", w.key, `{"seq":99}`).wantProblem(t, 422, "invalid_request")
	w.post(path+"/fork", w.key, `{"seq":1,"message":"`+nul+`"}`).wantProblem(t, 422, "invalid_request")
	w.post(path+"/close", w.key, "").wantStatus(t, 200)
	w.post(path+"/messages", w.key, `{"message":"hello"}`).wantProblem(t, 409, "conversation_ended")
	w.post(path+"/close", w.key, "").wantProblem(t, 409, "conversation_ended")
	w.post(path+"/cancel", w.key, "").wantProblem(t, 409, "conversation_ended")
}

// Of a conversation that the agent's own client runs, Holdpoint knows the calls, not the messages.
func TestClientsConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := w.catalog.StartConversation(t.Context(), w.billing, uuid.Nil, "2025-11-25", nil)
	check(t, err)
	path := "conversations/" + c.ID.String()
	if loop, there := w.get(path, w.key).wantStatus(t, 200)["loop"]; !there || loop != nil {
		t.Errorf("loop %v", loop)
	}
	for _, address := range []string{"GET messages", "POST messages", "GET events", "POST cancel", "POST close", "POST fork"} {
		method, action, _ := strings.Cut(address, " ")
		body := ""
		switch {
		case action == "fork":
			body = `{"seq":1}`
		case address == "POST messages":
			body = `{"message":"hello"}`
		}
		w.send(method, "/api/v1/"+path+"/"+action, w.key, body).wantProblem(t, 409, "client_conversation")
	}
}

func TestSayOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{}`)
	say := func(key, message string) answer {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/"+path+"/messages", strings.NewReader(`{"message":"`+message+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+w.key)
		r.Header.Set("Idempotency-Key", key)
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
	}
	first := say("k1", "write one").wantStatus(t, 202)["message"].(map[string]any)["id"]
	w.followUntil(server, path, "waiting")
	pending := say("k2", "two").wantStatus(t, 202)
	for range 2 {
		if again := say("k1", "write one").wantStatus(t, 202); again["message"].(map[string]any)["id"] != first || again["pending"] != false {
			t.Errorf("repeated: %v", again)
		}
		again := say("k2", "two").wantStatus(t, 202)
		if again["message"].(map[string]any)["id"] != pending["message"].(map[string]any)["id"] || again["pending"] != true {
			t.Errorf("repeated: %v", again)
		}
	}
	say("k1", "three").wantProblem(t, 422, "idempotency_key_reused")
	say("k2", "three").wantProblem(t, 422, "idempotency_key_reused")
	say("a b", "x").wantProblem(t, 422, "invalid_request")
	say("é", "x").wantProblem(t, 422, "invalid_request")
	say(strings.Repeat("k", 256), "x").wantProblem(t, 422, "invalid_request")
	if waits := w.getConversation(path)["pending"].([]any); len(waits) != 1 {
		t.Errorf("pending %v", waits)
	}
	w.post(path+"/close", w.key, "").wantStatus(t, 200)
	if again := say("k1", "write one").wantStatus(t, 202); again["message"].(map[string]any)["id"] != first {
		t.Errorf("repeated: %v", again)
	}
	said := 0
	for _, e := range listItems(t, w.get(path+"/messages", w.key).wantStatus(t, 200)) {
		if e.(map[string]any)["kind"] == "user" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d messages, want 1", said)
	}
}

func TestForks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"one"}`)
	w.followUntil(server, path, "idle")
	w.post(path+"/messages", w.key, `{"message":"two"}`).wantStatus(t, 202)
	w.followUntil(server, path, "idle")
	w.post(path+"/close", w.key, "").wantStatus(t, 200)
	for _, test := range []struct{ body, want string }{
		{`{"seq":1}`, "one|You said: one"},
		{`{"seq":1,"message":"uno"}`, "uno|You said: uno"},
		{`{"seq":2}`, "one|You said: one"},
		{`{"seq":2,"message":"due"}`, "one|You said: one|due|You said: due"},
		{`{"seq":3,"message":"due"}`, "one|You said: one|due|You said: due"},
		{`{"seq":3}`, "one|You said: one|two|You said: two"},
	} {
		fork := w.post(path+"/fork", w.key, test.body).wantStatus(t, 201)
		forked := "conversations/" + fork["id"].(string)
		if from := fork["loop"].(map[string]any)["forked_from"]; "conversations/"+from.(string) != path {
			t.Errorf("%s: forked from %v", test.body, from)
		}
		w.followUntil(server, forked, "idle")
		var said []string
		for _, item := range listItems(t, w.get(forked+"/messages", w.key).wantStatus(t, 200)) {
			e := item.(map[string]any)
			said = append(said, e[e["kind"].(string)].(map[string]any)["text"].(string))
		}
		if got := strings.Join(said, "|"); got != test.want {
			t.Errorf("%s: %s, want %s", test.body, got, test.want)
		}
		if latest := w.get("conversations/latest", w.key).wantStatus(t, 200); latest["id"] != fork["id"] {
			t.Errorf("latest is %v", latest["id"])
		}
	}
}

func TestCancelConversation(t *testing.T) {
	t.Parallel()
	play := newStage()
	w := newWorldWith(t, play)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	<-play.asked
	f := w.followEvents(server, path+"/events", w.key, "")
	play.addText("Half of")
	f.readUntil(isNamed("delta"))
	if got := w.post(path+"/cancel", w.key, "").wantStatus(t, 200)["loop"].(map[string]any); got["status"] == "ended" {
		t.Errorf("loop %v", got)
	}
	events := f.readUntil(isState("idle"))
	if last := events[len(events)-1].decodeData(t); last["stopping"] != false {
		t.Errorf("state %v", last)
	}
	text := fmt.Sprint(events)
	if void, notice := strings.Index(text, " restart "), strings.Index(text, " notice "); void < 0 || notice < 0 || !strings.Contains(text, `"code":"stopped"`) {
		t.Errorf("events %s", text)
	}
	w.post(path+"/messages", w.key, `{"message":"again"}`).wantStatus(t, 202)
	<-play.asked
	play.completeReply("Here I am.")
	events = f.readUntil(isState("idle"))
	if text := fmt.Sprint(events); strings.Contains(text, "Half of") || !strings.Contains(text, "Here I am.") {
		t.Errorf("events %s", text)
	}
}

// For other callers a conversation does not exist. Reviewers and operators may read it, and operators may stop it.
func TestWhoseConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing", "other")
	vera := w.createToken("vera", identity.Reviewer)
	_, elsewhere, err := w.people.CreateToken(t.Context(), uuid.Nil, "vera", []identity.Role{identity.Reviewer}, []string{"other"})
	check(t, err)
	ofKey, ofVera := w.startConversation(w.key, `{}`), w.startConversation(vera, `{"agent":"billing"}`)
	bodies := map[string]string{"POST messages": `{"message":"hello"}`, "POST fork": `{"seq":1}`}
	for _, test := range []struct {
		path   string
		tokens []string
	}{
		{ofKey, []string{w.newKey("other")}},
		{ofVera, []string{w.key, w.newKey("other")}},
		{"conversations/" + uuid.NewString(), []string{w.key, vera, w.operator}},
	} {
		for i, token := range test.tokens {
			for _, address := range []string{"GET ", "GET messages", "GET events", "POST messages", "POST cancel", "POST close", "POST fork"} {
				method, action, _ := strings.Cut(address, " ")
				got := w.send(method, strings.TrimSuffix("/api/v1/"+test.path+"/"+action, "/"), token, bodies[address])
				if got.status != 404 || strings.Contains(got.body, "billing") {
					t.Errorf("%s of %s by %d: %d: %s", address, test.path, i, got.status, got.body)
				}
			}
		}
	}
	for _, token := range []string{w.reviewer, w.operator, elsewhere} { // the last may no longer act as the agent
		w.get(ofVera, token).wantStatus(t, 200)
		w.get(ofVera+"/messages", token).wantStatus(t, 200)
		w.post(ofVera+"/messages", token, `{"message":"hello"}`).wantProblem(t, 403, "read_only")
		w.post(ofVera+"/fork", token, `{"seq":1}`).wantProblem(t, 403, "read_only")
	}
	w.get("conversations/latest?agent=billing", w.reviewer).wantProblem(t, 404, "not_found")
	if latest := w.get("conversations/latest?agent=billing", vera).wantStatus(t, 200); "conversations/"+latest["id"].(string) != ofVera {
		t.Errorf("latest %v", latest)
	}
	w.post(ofVera+"/cancel", w.reviewer, "").wantProblem(t, 403, "read_only")
	w.post(ofVera+"/close", w.reviewer, "").wantProblem(t, 403, "read_only")
	w.post(ofVera+"/cancel", w.operator, "").wantProblem(t, 409, "conversation_idle")
	ended := w.post(ofVera+"/close", w.operator, "").wantStatus(t, 200)
	if ended["loop"].(map[string]any)["code"] != "closed" || ended["ended_at"] == nil || ended["principal"] != "vera" {
		t.Errorf("ended %v", ended)
	}
	notice := listItems(t, w.get(ofVera+"/messages", vera).wantStatus(t, 200))[0].(map[string]any)["notice"].(map[string]any)
	if notice["by"] != "olga" || notice["code"] != "closed" {
		t.Errorf("notice %v", notice)
	}
}

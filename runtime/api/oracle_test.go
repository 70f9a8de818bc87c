package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// oracle is a model.
type oracle func(ctx context.Context, r *model.Request, say func(string)) (*model.Response, error)

func (o oracle) Generate(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error) {
	return o(ctx, r, func(text string) { sink(model.Delta{Text: text}) })
}

// answerText returns an answer without calls.
func answerText(text string) *model.Response {
	return &model.Response{Parts: []model.Part{model.TextPart(text)}, Stop: model.StopEnd, Usage: model.Usage{InputTokens: 10, OutputTokens: 2}, Model: "oracle-1"}
}

// answerCall returns a reply that requests a call.
func answerCall(text, name, arguments string) *model.Response {
	return &model.Response{
		Parts: []model.Part{model.TextPart(text), {Call: &model.ToolCall{ID: "c1", Name: name, Arguments: arguments}}},
		Stop:  model.StopToolCalls, Usage: model.Usage{InputTokens: 10, OutputTokens: 2},
	}
}

// lastMessage returns the last message, and whether it has the results of calls.
func lastMessage(r *model.Request) (text string, results bool) {
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		switch {
		case p.Text != nil:
			text = p.Text.Text
		case p.Result != nil:
			text, results = p.Result.Parts[0].Text.Text, true
		}
	}
	return text, results
}

// echoMessages answers with the message. For "write …" it requests a call that needs approval.
func echoMessages(_ context.Context, r *model.Request, say func(string)) (*model.Response, error) {
	text, results := lastMessage(r)
	if strings.HasPrefix(text, "write") && !results {
		return answerCall("I will write.", "files__write", `{"n":1}`), nil
	}
	say("You said: ")
	say(text)
	return answerText("You said: " + text), nil
}

// stage is a model whose replies a test dictates.
type stage struct {
	asked chan *model.Request
	lines chan func(say func(string)) *model.Response // nil: the reply continues
}

func newStage() *stage {
	return &stage{make(chan *model.Request), make(chan func(func(string)) *model.Response)}
}

func (s *stage) Generate(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error) {
	select {
	case s.asked <- r:
	case <-ctx.Done():
		return nil, &model.Error{Message: "broken off", Err: ctx.Err()}
	}
	for {
		select {
		case line := <-s.lines:
			if response := line(func(text string) { sink(model.Delta{Text: text}) }); response != nil {
				return response, nil
			}
		case <-ctx.Done():
			return nil, &model.Error{Message: "broken off", Err: ctx.Err()}
		}
	}
}

// addText adds to the reply, ends completes it, and withdraws discards it.
func (s *stage) addText(text string) {
	s.lines <- func(say func(string)) *model.Response { say(text); return nil }
}

func (s *stage) completeReply(text string) {
	s.lines <- func(func(string)) *model.Response { return answerText(text) }
}

// restarting is a stage whose requests can be repeated.
type restarting struct{ *stage }

const restarted = "\x00restart"

func (s restarting) Generate(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error) {
	return s.stage.Generate(ctx, r, func(d model.Delta) {
		if d.Text == restarted {
			d = model.Delta{Restart: true}
		}
		sink(d)
	})
}

// restartReply restarts the reply with a text.
func (s restarting) restartReply(text string) {
	s.lines <- func(say func(string)) *model.Response { say(restarted); say(text); return nil }
}

// setModel gives an agent a model.
func (w *world) setModel(names ...string) {
	w.t.Helper()
	var spec agent.Spec
	for _, name := range names {
		spec.Agents = append(spec.Agents, agent.AgentSpec{Name: name, Model: &agent.ModelSpec{Provider: agent.ProviderScripted, Name: "oracle"}})
	}
	_, err := w.agents.Apply(w.t.Context(), audit.System(), spec, false)
	check(w.t, err)
}

// startConversation starts a conversation and returns its path.
func (w *world) startConversation(token, body string) string {
	w.t.Helper()
	id, _ := w.post("conversations", token, body).wantStatus(w.t, 201)["id"].(string)
	return "conversations/" + id
}

// getConversation returns the state of a conversation.
func (w *world) getConversation(path string) map[string]any {
	w.t.Helper()
	loop, _ := w.get(path, w.both).wantStatus(w.t, 200)["loop"].(map[string]any)
	return loop
}

// told is one event of a stream.
type told struct {
	id, name, data string
}

func (e told) String() string { return e.id + " " + e.name + " " + e.data }

func (e told) decodeData(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(e.data), &v); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return v
}

// follower is a client that follows a conversation, over the network.
type follower struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
	id       string // of the last event that had one
	leave    context.CancelFunc
}

// startServer serves a process's API on the network.
func (w *world) startServer(p *process) *httptest.Server {
	server := httptest.NewServer(p.handler)
	w.t.Cleanup(func() {
		p.api.Drain()
		server.Close()
	})
	return server
}

// patience is how long a test waits for an expected event.
const patience = 5 * time.Minute

// followEvents starts to follow a conversation; id is the Last-Event-ID, or "".
func (w *world) followEvents(server *httptest.Server, path, token, id string) *follower {
	w.t.Helper()
	ctx, leave := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/"+path, nil)
	check(w.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if id != "" {
		r.Header.Set("Last-Event-ID", id)
	}
	response, err := server.Client().Do(r)
	check(w.t, err)
	w.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(response.Body)
		w.t.Fatalf("%s: %d %s: %s", path, response.StatusCode, response.Header.Get("Content-Type"), body)
	}
	f := &follower{t: w.t, response: response, lines: bufio.NewScanner(response.Body), id: id, leave: leave}
	f.lines.Buffer(nil, 64<<20)
	return f
}

// nextEvent returns the next event; false: the stream has ended.
func (f *follower) nextEvent() (told, bool) {
	f.t.Helper()
	var e told
	for f.lines.Scan() {
		field, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch field {
		case "id":
			e.id, f.id = value, value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
	return e, false
}

// readUntil reads up to the first event that matches, and returns all events that it read.
func (f *follower) readUntil(is func(told) bool) []told {
	f.t.Helper()
	var all []told
	for {
		e, ok := f.nextEvent()
		if !ok {
			f.t.Fatalf("the stream ended early (%v), after %v", f.lines.Err(), all)
		}
		if all = append(all, e); is(e) {
			return all
		}
	}
}

// isState matches the event of a conversation's state.
func isState(status string) func(told) bool {
	return func(e told) bool {
		return e.name == "state" && strings.Contains(e.data, fmt.Sprintf(`"status":%q`, status))
	}
}

func isNamed(name string) func(told) bool { return func(e told) bool { return e.name == name } }

// entryNames returns the events with ids.
func entryNames(all []told) []string {
	var list []string
	for _, e := range all {
		if e.id != "" {
			list = append(list, e.String())
		}
	}
	return list
}

// followUntil waits until a conversation has a status.
func (w *world) followUntil(server *httptest.Server, path, status string) []told {
	w.t.Helper()
	f := w.followEvents(server, path+"/events", w.both, "")
	defer f.leave()
	return f.readUntil(isState(status))
}

// decideOnly approves the only parked call.
func (w *world) approveOnly() uuid.UUID {
	w.t.Helper()
	list := listItems(w.t, w.get("approvals?status=pending", w.reviewer).wantStatus(w.t, 200))
	if len(list) != 1 {
		w.t.Fatalf("%d calls wait", len(list))
	}
	one := list[0].(map[string]any)
	id, _ := one["id"].(string)
	w.post("approvals/"+id+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, one["digest"])).wantStatus(w.t, 200)
	return uuid.MustParse(id)
}

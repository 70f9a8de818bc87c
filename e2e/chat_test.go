package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// recorder is a model that calls the tool "record" and reports the result. Its first report pauses midway until the
// client disconnects.
type recorder struct {
	*modelserver.Server
	url    string
	halted chan struct{} // receives when the report pauses
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	m := &recorder{halted: make(chan struct{}, 1)}
	halt := true
	m.Server = modelserver.New(func(r *modelserver.Request) modelserver.Answer {
		last := r.Last()
		if len(last.Results) == 0 && strings.HasPrefix(last.Text, "Record ") {
			n := strings.TrimSuffix(strings.TrimPrefix(last.Text, "Record "), ".")
			return modelserver.Answer{
				Text:  "I will have it recorded.",
				Calls: []modelserver.Call{{Name: "counting__record", Arguments: `{"n":` + n + `}`}},
			}
		}
		if len(last.Results) == 0 {
			return modelserver.Answer{Text: "You said: " + last.Text}
		}
		lines := strings.Fields(last.Results[0].Text)
		answer := modelserver.Answer{Text: "The server says, word for word: " + strings.Join(lines[len(lines)-2:], " ")}
		if halt {
			halt = false
			answer.Before = func(ctx context.Context, event int) {
				if event == 4 {
					m.halted <- struct{}{}
					<-ctx.Done()
				}
			}
		}
		return answer
	})
	server := httptest.NewServer(m.Server)
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

// restart kills a server and starts another at the same address.
func (w *world) restart(old *holdpoint.Process) *holdpoint.Process {
	w.t.Helper()
	old.Kill()
	old.AwaitKilled(w.t)
	o := w.serverOptions()
	o.Port = old.Port
	return program.Serve(w.t, o)
}

// TestChat: a user asks in a terminal, and the call waits for a reviewer. The server is killed during the wait and
// again while the model answers. The whole answer arrives, and the call is made once.
func TestChat(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t), newRecorder(t)
	server := (&skill.Raw{}).Serve(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(server.URL, "")+fmt.Sprintf("    model: {provider: openai, name: recorder-1, base_url: %q, api_key: k}\n", m.url))
	chat := newCLI(p, w.newAgent(p, "worker").Key)

	asked := chat.Start(t, "chat", "worker", "Record 7.")
	parked, err := pendingFor(t.Context(), "7", p)
	if err != nil {
		t.Fatal(err)
	}
	p = w.restart(p)
	if err := operatorAPI(p).Approve(t.Context(), parked); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.halted:
	case <-t.Context().Done():
		t.Fatal("the model is not asked again")
	}
	awaitDelta(t, chat)
	w.restart(p)
	ran := <-asked
	const whole = "The server says, word for word: recorded 7\n"
	if ran.Code != 0 || !strings.HasPrefix(ran.Stdout, "I will have it recorded.\n") || !strings.HasSuffix(ran.Stdout, whole) || strings.Count(ran.Stdout, "recorded 7") != 1 {
		t.Errorf("exit code %d\n%s\n%s", ran.Code, ran.Stdout, ran.Stderr)
	}
	for told, least := range map[string]int{ // the server may be killed before it reports the wait
		"waiting for approval: counting__record, call " + parked.CallID + ", deadline ": 0,
		"succeeded: counting__record, call " + parked.CallID:                            1,
	} {
		if n := strings.Count(ran.Stderr, told); n < least || n > 1 {
			t.Errorf("stderr says %d times %q:\n%s", n, told, ran.Stderr)
		}
	}
	if server.Arguments("7") == "" {
		t.Error("the call did not arrive")
	}

	goesOn(t, chat)
	if refusals := m.Refusals(); len(refusals) > 0 {
		t.Errorf("the model's server refused: %v", refusals)
	}
}

// awaitDelta waits until followers of the latest conversation got a part of the reply.
func awaitDelta(t *testing.T, chat holdpoint.CLI) {
	t.Helper()
	var latest struct {
		ID string `json:"id"`
	}
	api := holdpoint.API{URL: chat.URL, Token: chat.Token}
	if err := api.Do(t.Context(), http.MethodGet, "conversations/latest", nil, &latest); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, chat.URL+"/api/v1/conversations/"+latest.ID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+chat.Token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if lines.Text() == "event: delta" {
			return
		}
	}
	t.Fatal("the stream ended without any of the reply")
}

// goesOn sends another message in the conversation, and reads it.
func goesOn(t *testing.T, chat holdpoint.CLI) {
	t.Helper()
	var conversation struct {
		ID string `json:"id"`
	}
	first, events, _ := strings.Cut(chat.Must(t, "chat", "worker", "--continue", "--json", "Thank you."), "\n")
	var begun struct {
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if err := errors.Join(json.Unmarshal([]byte(first), &begun), json.Unmarshal(begun.Data, &conversation)); err != nil || begun.Event != "conversation" {
		t.Fatalf("%v: %s", err, first)
	}
	if !strings.Contains(events, `"text":"You said: Thank you."`) || strings.Contains(events, "recorded") {
		t.Errorf("events\n%s", events)
	}
	entries, err := holdpoint.List[struct {
		Seq  int    `json:"seq"`
		Kind string `json:"kind"`
	}](t.Context(), holdpoint.API{URL: chat.URL, Token: chat.Token}, "conversations/"+conversation.ID+"/messages", "")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for i, entry := range entries {
		if kinds = append(kinds, entry.Kind); entry.Seq != i+1 {
			t.Errorf("entry %d has the number %d", i+1, entry.Seq)
		}
	}
	want := []string{"user", "assistant", "call", "call", "call", "tools", "assistant", "user", "assistant"}
	if !slices.Equal(kinds, want) {
		t.Errorf("entries %v, want %v", kinds, want)
	}
	fork := chat.Must(t, "conversations", "fork", conversation.ID, "8", "--message", "Thanks a lot.", "--json")
	var forked struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(fork), &forked); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "the fork is answered", func() error {
		if said := chat.Must(t, "conversations", "messages", forked.ID); !strings.Contains(said, "You said: Thanks a lot.") {
			return fmt.Errorf("so far: %s", said)
		}
		return nil
	})
	chat.Must(t, "conversations", "close", forked.ID)
	if ran := chat.Run(t, "chat", "worker", "--conversation", forked.ID, "Hello?"); ran.Code != 1 || !strings.Contains(ran.Stderr, "conversation_ended") {
		t.Errorf("exit code %d: %s", ran.Code, ran.Stderr)
	}
}

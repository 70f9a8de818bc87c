package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// Settings of the conversation under chaos
const (
	talkTurns  = 30
	talkCalls  = 40
	talkParked = 15
	talkKills  = 10
	talkPause  = 3 * time.Second // from one kill to the next
)

// entry is an entry of a conversation in the API.
type entry struct {
	Seq  int64  `json:"seq"`
	Kind string `json:"kind"`
	User *struct {
		Text string `json:"text"`
	} `json:"user"`
	Assistant *struct {
		Text  string `json:"text"`
		Calls []struct {
			ModelID string  `json:"model_id"`
			CallID  *string `json:"call_id"`
			Name    string  `json:"name"`
			Refused *string `json:"refused"`
		} `json:"calls"`
	} `json:"assistant"`
	Tools *struct {
		Results []struct {
			ModelID string  `json:"model_id"`
			CallID  *string `json:"call_id"`
			IsError bool    `json:"is_error"`
			Text    string  `json:"text"`
			Images  int     `json:"images"`
		} `json:"results"`
	} `json:"tools"`
	Call *struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"call"`
	Notice *struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"notice"`
}

// talk is a conversation in the API.
type talk struct {
	ID   string `json:"id"`
	Loop *struct {
		Status    string `json:"status"`
		Code      string `json:"code"`
		Turns     int    `json:"turns"`
		OpenCalls int    `json:"open_calls"`
	} `json:"loop"`
}

// startModel serves a scripted model in the real wire formats.
func startModel(t testing.TB, script modelserver.Script) (server *modelserver.Server, url string) {
	t.Helper()
	server = modelserver.New(script)
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	t.Cleanup(func() {
		if refusals := server.Refusals(); len(refusals) > 0 {
			t.Errorf("requests that a real model server would refuse: %v", refusals)
		}
	})
	return server, listening.URL
}

// talkManifest declares a gated skill "counting" and an auto-approved skill "open" on one server, and the agent
// "worker" with a model.
func talkManifest(provider, modelURL, skillURL string) string {
	base := modelURL
	if provider == modelserver.OpenAI {
		base += "/v1"
	}
	return fmt.Sprintf(`skills:
  - {name: counting, transport: http, url: %q, approval_timeout: 1h}
  - {name: open, transport: http, url: %q, auto_approve: true}
agents:
  - name: worker
    model: {provider: %s, name: test-model, base_url: %q}
    skills: [counting, open]
`, skillURL, skillURL, provider, base)
}

func beginTalk(t testing.TB, api holdpoint.API, message string) string {
	t.Helper()
	var begun talk
	if err := api.Do(t.Context(), http.MethodPost, "conversations", map[string]string{"message": message}, &begun); err != nil {
		t.Fatal(err)
	}
	return begun.ID
}

// awaitTalk waits until a conversation has the status.
func awaitTalk(t testing.TB, within time.Duration, api func() holdpoint.API, id, status string) talk {
	t.Helper()
	var found talk
	eventually.Succeeds(t, within, "conversation is "+status, func() error {
		if err := api().Do(t.Context(), http.MethodGet, "conversations/"+id, nil, &found); err != nil {
			return err
		}
		if found.Loop == nil || found.Loop.Status != status {
			return fmt.Errorf("it is %+v", found.Loop)
		}
		return nil
	})
	return found
}

func listEntries(t testing.TB, api holdpoint.API, id string) []entry {
	t.Helper()
	list, err := holdpoint.List[entry](t.Context(), api, "conversations/"+id+"/messages", "")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has number %d", i+1, e.Seq)
		}
	}
	return list
}

// plannedCalls returns the calls of a turn, each with a number and a skill. The last turn has none.
func plannedCalls(turn int) (calls []modelserver.Call) {
	for n := range talkCalls {
		if n*(talkTurns-1)/talkCalls != turn {
			continue
		}
		name := "open__record"
		if n%8 == 1 || n%8 == 4 || n%8 == 6 {
			name = "counting__record"
		}
		calls = append(calls, modelserver.Call{Name: name, Arguments: fmt.Sprintf(`{"n":%d}`, n)})
	}
	return calls
}

// longWork is a model that works through the plan and then answers.
func longWork(r *modelserver.Request) modelserver.Answer {
	turn := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	answer := modelserver.Answer{
		Text: fmt.Sprintf("Step %d of %d.", turn+1, talkTurns),
		Before: func(ctx context.Context, _ int) { // so that some processes are killed while a model answers
			_ = pause.For(ctx, 100*time.Millisecond)
		},
	}
	if answer.Calls = plannedCalls(turn); len(answer.Calls) == 0 {
		answer.Text = "All of it is done."
	}
	return answer
}

// talkChaos has servers that are killed one after the other.
type talkChaos struct {
	t  *testing.T
	w  *world
	mu sync.Mutex

	servers []*holdpoint.Process
	kills   int
}

func (c *talkChaos) anyServer() *holdpoint.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[rand.IntN(len(c.servers))]
}

func (c *talkChaos) killAndRestart(ctx context.Context) {
	for n := 0; n < talkKills && pause.For(ctx, talkPause) == nil; n++ {
		c.mu.Lock()
		victim := rand.IntN(len(c.servers))
		old := c.servers[victim]
		c.mu.Unlock()
		old.Kill()
		c.kills++
		o := c.w.serverOptions()
		o.Port = old.Port
		started, err := program.TryStart(c.t, o)
		if err == nil {
			err = eventually.Poll(c.t.Context(), patience, started.Ready)
		}
		if err != nil {
			c.t.Errorf("a restarted server does not come up: %v", err)
			return
		}
		c.mu.Lock()
		c.servers[victim] = started
		c.mu.Unlock()
	}
}

// approveAll approves all pending calls at any running server until ctx ends.
func (c *talkChaos) approveAll(ctx context.Context) {
	for pause.For(ctx, rand.N(time.Second)) == nil {
		api := operatorAPI(c.anyServer())
		list, err := holdpoint.List[holdpoint.Approval](ctx, api, "approvals", "status=pending")
		for i := range list {
			if err == nil {
				err = api.Approve(ctx, list[i])
			}
		}
		var refused *holdpoint.Problem
		if errors.As(err, &refused) && !alreadyDecided(err) && ctx.Err() == nil {
			c.t.Errorf("approve: %v", refused)
		}
	}
}

// TestTalkUnderChaos: a long conversation continues while processes are killed. Its messages are stored once and in
// order, and each call is sent once.
func TestTalkUnderChaos(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	_, modelURL := startModel(t, longWork)
	c := &talkChaos{t: t, w: w, servers: []*holdpoint.Process{w.startServer(), w.startServer(), w.startServer()}}
	w.applyManifest(c.servers[0], talkManifest(modelserver.OpenAI, modelURL, counting.URL))
	key := w.newAgent(c.servers[0], "worker").Key
	api := func() holdpoint.API { return holdpoint.API{URL: c.anyServer().URL, Token: key} }
	id := beginTalk(t, api(), "Do all of it.")

	ctx, stop := context.WithCancel(t.Context())
	var helpers sync.WaitGroup
	helpers.Go(func() { c.killAndRestart(ctx) })
	helpers.Go(func() { c.approveAll(ctx) })
	awaitTalk(t, 5*patience, api, id, "idle")
	stop()
	helpers.Wait()
	eventually.Succeeds(t, patience, "a server is up", func() error { return c.anyServer().Ready() })

	t.Logf("%d servers were killed", c.kills)
	checkLongWork(t, listEntries(t, api(), id), operatorAPI(c.anyServer()), counting)
}

func checkLongWork(t *testing.T, list []entry, api holdpoint.API, counting *skill.Counting) {
	t.Helper()
	turns, told, unknown := 0, 0, 0
	var open []string
	var last entry
	for _, e := range list {
		switch {
		case e.Assistant != nil:
			if want := fmt.Sprintf("Step %d of %d.", turns+1, talkTurns); turns < talkTurns-1 && e.Assistant.Text != want {
				t.Errorf("reply %d: %q", turns+1, e.Assistant.Text)
			}
			turns++
			for _, made := range e.Assistant.Calls {
				if made.CallID == nil || made.Refused != nil {
					t.Errorf("no call was made of %+v", made)
					continue
				}
				open = append(open, *made.CallID)
			}
			last = e
		case e.Tools != nil:
			for i, r := range e.Tools.Results {
				if i >= len(open) || r.CallID == nil || *r.CallID != open[i] {
					t.Errorf("entry %d tells of %v, want %v", e.Seq, r.CallID, open)
					continue
				}
				told++
				if r.IsError && !strings.Contains(r.Text, "outcome of this call is unknown") {
					t.Errorf("the model was told %q", r.Text)
				}
			}
			open = nil
		case e.Notice != nil:
			t.Errorf("notice %+v", e.Notice)
		}
	}
	if turns != talkTurns || told != talkCalls || last.Assistant.Text != "All of it is done." {
		t.Errorf("%d turns, told of %d calls, at last: %+v", turns, told, last.Assistant)
	}
	calls, err := holdpoint.List[holdpoint.Call](t.Context(), api, "calls", "")
	if err != nil {
		t.Fatal(err)
	}
	parked := 0
	for _, call := range calls {
		n := argumentN(call.Arguments)
		switch arrived := counting.Count(n); {
		case call.Status == "unknown" && arrived <= 1:
			unknown++
		case call.Status == "succeeded" && arrived == 1:
		default:
			t.Errorf("call %s is %s and arrived %d times", n, call.Status, arrived)
		}
		if call.Skill == "counting" {
			parked++
		}
	}
	if len(calls) != talkCalls || parked != talkParked {
		t.Errorf("%d calls, %d of them parked", len(calls), parked)
	}
	t.Logf("%d entries; %d calls with unknown outcome", len(list), unknown)
}

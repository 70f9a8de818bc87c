package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// toldOf returns the results in the last message of a request.
func toldOf(r *modelserver.Request) []string {
	var texts []string
	for _, result := range r.Last().Results {
		texts = append(texts, result.Text)
	}
	return texts
}

// parkedCalls waits for n calls that need a decision.
func parkedCalls(t testing.TB, p *holdpoint.Process, n int) (waiting []holdpoint.Approval) {
	t.Helper()
	eventually.Succeeds(t, patience, fmt.Sprintf("%d parked calls", n), func() error {
		var err error
		waiting, err = holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "status=pending")
		if err == nil && len(waiting) != n {
			err = fmt.Errorf("there are %d", len(waiting))
		}
		return err
	})
	return waiting
}

// TestTalkOverTheWire: both wire formats yield the same conversation, however badly the model and its server behave.
func TestTalkOverTheWire(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{modelserver.OpenAI, modelserver.Anthropic} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			w, counting := newWorld(t), skill.NewCounting(t)
			calls := func(list ...string) (made []modelserver.Call) {
				for i := 0; i < len(list); i += 2 {
					made = append(made, modelserver.Call{Name: list[i], Arguments: list[i+1]})
				}
				return made
			}
			model, url := startModel(t, modelserver.Sequence(
				modelserver.Answer{Fault: modelserver.Fault{Status: http.StatusTooManyRequests, RetryAfter: "0"}},
				modelserver.Answer{Text: "This will be cut off.", Fault: modelserver.Fault{After: 3, Cut: true}},
				modelserver.Answer{Fault: modelserver.Fault{Status: http.StatusServiceUnavailable}},
				modelserver.Answer{Text: "Three at once.", Calls: calls("open__record", `{"n":1}`, "counting__record", `{"n":2}`, "counting__record", `{"n":3}`)},
				modelserver.Answer{Text: "Badly.", Calls: calls("open__record", `{"n": 4`, "open__erase", `{}`, "open__record", `{"n":5}`)},
				modelserver.Answer{Text: "Overloaded in between.", Fault: modelserver.Fault{After: 2, Error: true}},
				modelserver.Answer{Text: "That was it."},
			))
			p := w.startServer()
			w.applyManifest(p, talkManifest(provider, url, counting.URL))
			api := holdpoint.API{URL: p.URL, Token: w.newAgent(p, "worker").Key}
			id := beginTalk(t, api, "Count.")
			waiting := parkedCalls(t, p, 2)
			slices.SortFunc(waiting, func(a, b holdpoint.Approval) int { return strings.Compare(string(a.Arguments), string(b.Arguments)) })
			if err := operatorAPI(p).Reject(t.Context(), waiting[0], "not two"); err != nil {
				t.Fatal(err)
			}
			if err := operatorAPI(p).Approve(t.Context(), waiting[1]); err != nil {
				t.Fatal(err)
			}
			awaitTalk(t, patience, func() holdpoint.API { return api }, id, "idle")
			var said []string
			for _, e := range listEntries(t, api, id) {
				switch {
				case e.Assistant != nil:
					said = append(said, e.Assistant.Text)
				case e.Notice != nil:
					t.Errorf("notice %+v", e.Notice)
				}
			}
			if got := strings.Join(said, " "); got != "Three at once. Badly. That was it." {
				t.Errorf("it said %s", got)
			}
			requests := model.Requests()
			first, second := toldOf(requests[4]), toldOf(requests[6])
			for i, want := range []string{"recorded", "not two", "A reviewer approved this call"} {
				if len(first) != 3 || !strings.Contains(first[i], want) {
					t.Errorf("told at first %q, want %q", first, want)
				}
			}
			for i, want := range []string{"cannot be read", `There is no tool named "open__erase"`, "recorded"} {
				if len(second) != 3 || !strings.Contains(second[i], want) {
					t.Errorf("told then %q, want %q", second, want)
				}
			}
			for n, want := range map[string]int{"1": 1, "2": 0, "3": 1, "4": 0, "5": 1} {
				if got := counting.Count(n); got != want {
					t.Errorf("call %s arrived %d times, want %d", n, got, want)
				}
			}
		})
	}
}

// TestTalkKilledAndRestarted kills the only process at each moment of a turn, and restarts it.
func TestTalkKilledAndRestarted(t *testing.T) {
	t.Parallel()
	for _, name := range failpoint.Turns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, counting := newWorld(t), skill.NewCounting(t)
			_, url := startModel(t, func(r *modelserver.Request) modelserver.Answer {
				if len(toldOf(r)) > 0 {
					return modelserver.Answer{Text: "Done."}
				}
				return modelserver.Answer{Text: "Both.", Calls: []modelserver.Call{
					{Name: "counting__record", Arguments: `{"n":1}`}, {Name: "counting__record", Arguments: `{"n":2}`},
				}}
			})
			p := w.startServer()
			w.applyManifest(p, talkManifest(modelserver.OpenAI, url, counting.URL))
			key := w.newAgent(p, "worker").Key
			p.Kill()
			armed := w.serveArmed(name)
			var begun talk
			// The process may be killed before it answers.
			_ = holdpoint.API{URL: armed.URL, Token: key}.Do(t.Context(), http.MethodPost, "conversations", map[string]string{"message": "Go."}, &begun)
			armed.AwaitKilled(t)
			p = w.startServer()
			api := holdpoint.API{URL: p.URL, Token: key}
			if begun.ID == "" {
				if err := api.Do(t.Context(), http.MethodGet, "conversations/latest", nil, &begun); err != nil {
					t.Fatal(err)
				}
			}
			waiting := parkedCalls(t, p, 2)
			for _, shown := range waiting {
				if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
					t.Fatal(err)
				}
			}
			awaitTalk(t, patience, func() holdpoint.API { return api }, begun.ID, "idle")
			if counting.Count("1") != 1 || counting.Count("2") != 1 {
				t.Errorf("arrived: %v", counting.All())
			}
			calls, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(p), "calls", "")
			if err != nil || len(calls) != 2 {
				t.Errorf("%d calls, %v", len(calls), err)
			}
		})
	}
}

// TestInjectedInstructions: a tool's result tells the model to approve and to call an unknown tool. The model obeys,
// and the gate holds.
func TestInjectedInstructions(t *testing.T) {
	t.Parallel()
	w, counting, vault := newWorld(t), skill.NewCounting(t), skill.NewCounting(t)
	_, url := startModel(t, modelserver.Sequence(
		modelserver.Answer{Text: "I look.", Calls: []modelserver.Call{{Name: "open__record", Arguments: `{"n":1}`}}},
		modelserver.Answer{Text: "The result says that I may approve it myself.", Calls: []modelserver.Call{
			{Name: "counting__record", Arguments: `{"n":2}`},
			{Name: "vault__record", Arguments: `{"n":3}`},
			{Name: "holdpoint_approve", Arguments: `{"call_id":"1"}`},
			{Name: "holdpoint_await", Arguments: `{"call_id":"1"}`},
			{Name: "ask", Arguments: `{"message":"Approve it."}`},
		}},
		modelserver.Answer{Text: "It did not work."},
	))
	p := w.startServer()
	w.applyManifest(p, strings.Replace(talkManifest(modelserver.OpenAI, url, counting.URL), "agents:\n",
		fmt.Sprintf("  - {name: vault, transport: http, url: %q, auto_approve: true}\nagents:\n  - {name: other, skills: [vault]}\n", vault.URL), 1))
	api := holdpoint.API{URL: p.URL, Token: w.newAgent(p, "worker").Key}
	id := beginTalk(t, api, "Count.")
	waiting := parkedCalls(t, p, 1)
	// The agent's only credential, its key, cannot decide either.
	if err := api.Approve(t.Context(), waiting[0]); err == nil {
		t.Error("an agent approved its call")
	}
	if err := operatorAPI(p).Reject(t.Context(), waiting[0], "no"); err != nil {
		t.Fatal(err)
	}
	awaitTalk(t, patience, func() holdpoint.API { return api }, id, "idle")
	calls, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(p), "calls", "")
	if err != nil || len(calls) != 2 {
		t.Errorf("%d calls were made, %v", len(calls), err)
	}
	if len(counting.All()) != 1 || counting.Count("1") != 1 || len(vault.All()) != 0 {
		t.Errorf("arrived %v, and at what was not assigned %v", counting.All(), vault.All())
	}
}

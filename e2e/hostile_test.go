package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// hostile is a skill server that misbehaves, with the expected report.
type hostile struct {
	server *skill.Raw
	kind   string // of failure
	says   string // part of the message; may be empty
}

// badLists returns servers whose tools cannot be listed.
func badLists() map[string]hostile {
	return map[string]hostile{
		"hangs": {&skill.Raw{List: func(_ http.ResponseWriter, r *skill.Request) { <-r.HTTP.Context().Done() }}, "transport", ""},
		"html":  {&skill.Raw{List: func(w http.ResponseWriter, _ *skill.Request) { writeHTML(w) }}, "protocol", "html"},
		"many":  {&skill.Raw{List: tenThousandTools}, "protocol", "tools"},
		"huge":  {&skill.Raw{List: hundredMegabytes}, "protocol", "bytes"},
		"loop": {&skill.Raw{List: func(w http.ResponseWriter, r *skill.Request) {
			r.Answer(w, `{"tools":[],"nextCursor":"again"}`)
		}}, "protocol", "cursor"},
		"cut": {&skill.Raw{List: closeMidAnswer}, "transport", ""},
	}
}

// badCalls returns servers whose tools can be listed, but whose calls fail.
func badCalls() map[string]hostile {
	return map[string]hostile{
		"call-hangs": {&skill.Raw{Call: func(_ http.ResponseWriter, r *skill.Request) { <-r.HTTP.Context().Done() }}, "transport", ""},
		"call-html":  {&skill.Raw{Call: func(w http.ResponseWriter, _ *skill.Request) { writeHTML(w) }}, "protocol", "html"},
		"call-huge":  {&skill.Raw{Call: hundredMegabytes}, "protocol", "bytes"},
		"call-cut":   {&skill.Raw{Call: closeMidAnswer}, "transport", ""},
	}
}

func writeHTML(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<html><body><h1>Sign in to continue</h1></body></html>")) // the client may have disconnected
}

func tenThousandTools(w http.ResponseWriter, r *skill.Request) {
	var list strings.Builder
	for i := range 10_000 {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"name":"tool-%d","inputSchema":{"type":"object"}}`, i)
	}
	r.Answer(w, `{"tools":[`+list.String()+`]}`)
}

func hundredMegabytes(w http.ResponseWriter, r *skill.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, r.ID) // the client may have disconnected
	chunk := []byte(strings.Repeat("a", 1<<20))
	for range 100 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	_, _ = w.Write([]byte(`"}]}}`)) // the client may have disconnected
}

func closeMidAnswer(w http.ResponseWriter, r *skill.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"ty`, r.ID) // the client may have disconnected
	_ = http.NewResponseController(w).Flush()                                         // likewise
	skill.CloseConnection(w)
}

// TestHostileServers: calls to each bad server get a bounded error that names the problem, while a healthy server
// beside them keeps working.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	healthy := skill.NewCounting(t)
	lists, calls := badLists(), badCalls()
	p := w.startServer()
	w.applyManifest(p, hostileYAML(t, healthy.URL, lists, calls))
	agent := w.newAgent(p, "worker")
	checkProblems(t, w, p, agent, lists)

	var all sync.WaitGroup
	defer all.Wait()
	for name, bad := range calls {
		all.Go(func() { checkBadCall(t, agent, name, bad) })
	}
	for i := range 20 {
		all.Go(func() {
			answer, err := agent.CallTool(t.Context(), "healthy__record", fmt.Sprintf(`{"n":%d}`, i))
			if err != nil || answer.Text() != fmt.Sprintf("recorded %d", i) {
				t.Errorf("the healthy skill answers %s, %v", answer.Raw, err)
			}
		})
	}
}

func hostileYAML(t *testing.T, healthyURL string, servers ...map[string]hostile) string {
	var skills, names strings.Builder
	names.WriteString("healthy, dies")
	for _, group := range servers {
		for name, bad := range group {
			limit := "2m" // for calls: large answers take long on a busy machine
			if name == "call-hangs" {
				limit = "5s"
			}
			fmt.Fprintf(&skills, "  - {name: %s, transport: http, url: %q, auto_approve: true, call_timeout: %s}\n", name, bad.server.Serve(t).URL, limit)
			names.WriteString(", " + name)
		}
	}
	return fmt.Sprintf(`skills:
  - {name: healthy, transport: http, url: %q, auto_approve: true}
  - {name: dies, transport: stdio, command: ["false"]}
%sagents:
  - name: worker
    skills: [%s]
`, healthyURL, skills.String(), names.String())
}

type skillProblem struct{ Skill, Kind, Error string }

// checkProblems checks that the conversation names each bad skill and has the tools of the others.
func checkProblems(t *testing.T, w *world, p *holdpoint.Process, agent holdpoint.Agent, lists map[string]hostile) {
	t.Helper()
	printed := newCLI(p, agent.Key).Must(t, "tools", "worker")
	for _, tool := range []string{"healthy__record", "call-huge__record"} {
		if !strings.Contains(printed, tool) {
			t.Errorf("holdpoint tools does not show %s:\n%s", tool, printed)
		}
	}
	conversations, err := holdpoint.List[struct{ Problems []skillProblem }](t.Context(), operatorAPI(p), "conversations", "agent=worker")
	if err != nil || len(conversations) == 0 {
		t.Fatalf("there are %d conversations: %v", len(conversations), err)
	}
	problems := conversations[0].Problems
	if len(problems) != len(lists)+1 {
		t.Errorf("the conversation names %d problems, want %d: %v", len(problems), len(lists)+1, problems)
	}
	for _, problem := range problems {
		want := lists[problem.Skill] // any message for "dies"
		if len(problem.Error) > 4000 || problem.Error == "" || (want.kind != "" && problem.Kind != want.kind) ||
			!strings.Contains(strings.ToLower(problem.Error), want.says) {
			t.Errorf("skill %s has the problem %s: %.4000s; want %s about %q", problem.Skill, problem.Kind, problem.Error, want.kind, want.says)
		}
	}
	if !slices.ContainsFunc(problems, func(p skillProblem) bool { return p.Skill == "dies" }) {
		t.Error("the skill that dies at once is not named")
	}
}

// checkBadCall checks a failing call that may have had an effect: it is sent once, and its answer and record are small.
func checkBadCall(t *testing.T, agent holdpoint.Agent, name string, bad hostile) {
	answer, err := agent.CallToolWith(t.Context(), name+"__record", `{"n":1}`, fmt.Sprintf(`{"dev.holdpoint/idempotency_key":%q}`, name))
	meta := answer.Call()
	if err != nil || !answer.Result.IsError || meta.Effect != "possible" || len(answer.Raw) > 100<<10 {
		t.Errorf("%s: the agent was told %.4000s, %v", name, answer.Raw, err)
		return
	}
	call, err := holdpoint.API{URL: agent.URL, Token: bootstrapToken}.Call(t.Context(), meta.ID)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if call.Status != "failed" || call.Failure != bad.kind || !strings.Contains(strings.ToLower(call.Message), bad.says) {
		t.Errorf("%s: the call is %s, failure %s: %s; want %s about %q", name, call.Status, call.Failure, call.Message, bad.kind, bad.says)
	}
	if n := bad.server.Count("1"); n != 1 {
		t.Errorf("%s: the call arrived %d times", name, n)
	}
	if len(call.Result) > 100<<10 {
		t.Errorf("%s: %d bytes of the answer are kept", name, len(call.Result))
	}
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// answerByRepeating is a model that echoes the user's messages. If asked to write, it calls a tool first.
func answerByRepeating(r *modelserver.Request) modelserver.Answer {
	var said []string
	for _, m := range r.Messages {
		if m.Role == "user" && m.Text != "" {
			said = append(said, m.Text)
		}
	}
	if results := r.Last().Results; len(results) > 0 {
		return modelserver.Answer{Text: "It was done: " + results[0].Text}
	}
	if last := said[len(said)-1]; strings.HasPrefix(last, "Write ") {
		return modelserver.Answer{Text: "I write.", Calls: []modelserver.Call{
			{Name: "counting__record", Arguments: fmt.Sprintf(`{"n":%s}`, strings.TrimPrefix(last, "Write "))},
		}}
	}
	return modelserver.Answer{Text: "I heard: " + strings.Join(said, ", ")}
}

func textOfResult(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var result holdpoint.Result
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return holdpoint.Answer{Result: result}.Text()
}

// TestAskByTheTypeScriptSDK: questions in a session share a conversation, and its calls are gated.
func TestAskByTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	w, counting := newWorld(t), skill.NewCounting(t)
	_, url := startModel(t, answerByRepeating)
	p := w.startServer()
	w.applyManifest(p, talkManifest(modelserver.Anthropic, url, counting.URL))
	agent := w.newAgent(p, "worker")
	for _, version := range []string{"1", "2"} {
		c := newSDKClient(t)
		c.connectBy(map[string]any{"sdk": version, "url": endpointURL(agent), "key": agent.Key})
		ask := func(message string) string {
			said := c.orderAny(map[string]any{"do": "call", "tool": "ask", "arguments": map[string]string{"message": message}})
			if said.Error != nil {
				t.Fatalf("ask: %v", said.Error)
			}
			return textOfResult(t, said.Result)
		}
		for _, test := range [][2]string{{"One", "I heard: One"}, {"Two", "I heard: One, Two"}} {
			if got := ask(test[0]); got != test[1] {
				t.Errorf("SDK %s: %q, want %q", version, got, test[1])
			}
		}
		go approveNext(t, p)
		if got := ask("Write " + version); !strings.Contains(got, "It was done: A reviewer approved this call") {
			t.Errorf("SDK %s: %q", version, got)
		}
		if counting.Count(version) != 1 {
			t.Errorf("SDK %s: arrived %v", version, counting.All())
		}
	}
}

// approveNext approves the next waiting call.
func approveNext(t testing.TB, p *holdpoint.Process) {
	err := eventually.Poll(t.Context(), patience, func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "status=pending")
		if err != nil || len(list) == 0 {
			return fmt.Errorf("nothing waits: %w", err)
		}
		return operatorAPI(p).Approve(t.Context(), list[0])
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAskTakesTooLong: a late answer causes error -32003 and can be fetched afterwards. A question repeated with its
// key is asked once.
func TestAskTakesTooLong(t *testing.T) {
	t.Parallel()
	w, counting := newWorld(t), skill.NewCounting(t)
	model, url := startModel(t, answerByRepeating)
	p := w.startServer()
	w.applyManifest(p, strings.Replace(talkManifest(modelserver.OpenAI, url, counting.URL), "- name: worker\n", "- name: worker\n    reply_timeout: 2s\n", 1))
	agent := w.newAgent(p, "worker")
	const question = `{"message":"Write 1","idempotency_key":"first"}`
	late, err := agent.CallTool(t.Context(), "ask", question)
	if err != nil || late.Error == nil || late.Error.Code != -32003 {
		t.Fatalf("%+v, %v", late, err)
	}
	var about struct {
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(late.Error.Data, &about); err != nil || about.CallID == "" {
		t.Fatalf("%s: %v", late.Error.Data, err)
	}
	again, err := agent.CallTool(t.Context(), "ask", question)
	if err != nil || again.Error == nil || again.Error.Code != -32003 || !strings.Contains(string(again.Error.Data), about.CallID) {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	parkedCalls(t, p, 1)
	approveNext(t, p)
	awaitCall(t, operatorAPI(p), about.CallID, hasStatus("succeeded"))
	for name, fetch := range map[string]func() (holdpoint.Answer, error){
		"holdpoint_await": func() (holdpoint.Answer, error) { return agent.Await(t.Context(), about.CallID) },
		"the same again":  func() (holdpoint.Answer, error) { return agent.CallTool(t.Context(), "ask", question) },
	} {
		answer, err := fetch()
		if err != nil || !strings.HasPrefix(answer.Text(), "It was done: ") {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2: one question", n)
	}
	if counting.Count("1") != 1 {
		t.Errorf("arrived %v", counting.All())
	}
}

// TestAgentsAskAgents: an agent's endpoint is a skill of another agent. Each of them is gated, and a cycle ends.
func TestAgentsAskAgents(t *testing.T) {
	t.Parallel()
	w, counting := newWorld(t), skill.NewCounting(t)
	_, worker := startModel(t, answerByRepeating)
	_, boss := startModel(t, func(r *modelserver.Request) modelserver.Answer {
		if results := r.Last().Results; len(results) > 0 {
			return modelserver.Answer{Text: "The worker says: " + results[0].Text}
		}
		return modelserver.Answer{Text: "I ask the worker.", Calls: []modelserver.Call{
			{Name: "team__ask", Arguments: fmt.Sprintf(`{"message":%q}`, r.Last().Text)},
		}}
	})
	p := w.startServer()
	w.applyManifest(p, talkManifest(modelserver.OpenAI, worker, counting.URL))
	w.applyManifest(p, fmt.Sprintf(`skills:
  - {name: team, transport: http, url: %q, headers: {X-Agent-API-Key: %q}}
agents:
  - {name: boss, model: {provider: anthropic, name: m, base_url: %q}, skills: [team]}
`, p.URL+"/agents/worker/mcp", w.newAgent(p, "worker").Key, boss))
	chief := holdpoint.API{URL: p.URL, Token: w.newAgent(p, "boss").Key}
	id := beginTalk(t, chief, "Write 7")
	approveNext(t, p) // the question itself
	eventually.Succeeds(t, patience, "the worker's own call", func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "status=pending")
		if err == nil && (len(list) != 1 || list[0].Tool != "record") {
			err = fmt.Errorf("there waits %+v", list)
		}
		return err
	})
	approveNext(t, p)
	awaitTalk(t, patience, func() holdpoint.API { return chief }, id, "idle")
	list := listEntries(t, chief, id)
	if last := list[len(list)-1].Assistant; last == nil || !strings.Contains(last.Text, "The worker says: ") || !strings.Contains(last.Text, "It was done: ") {
		t.Errorf("at last: %+v", list[len(list)-1])
	}
	if counting.Count("7") != 1 {
		t.Errorf("arrived %v", counting.All())
	}
}

// TestAgentsInARow: the length of a chain of agents is limited.
func TestAgentsInARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	model, url := startModel(t, func(r *modelserver.Request) modelserver.Answer {
		if results := r.Last().Results; len(results) > 0 {
			return modelserver.Answer{Text: "It said: " + results[0].Text}
		}
		return modelserver.Answer{Text: "I ask the next one.", Calls: []modelserver.Call{{Name: "next__ask", Arguments: `{"message":"Who knows?"}`}}}
	})
	p := w.startServer()
	const row = 7
	declare := func(n int, skill string) string {
		return fmt.Sprintf("agents:\n  - {name: agent-%d, model: {provider: openai, name: m, base_url: %q}, skills: [%s]}\n", n, url+"/v1", skill)
	}
	w.applyManifest(p, declare(row-1, ""))
	for n := row - 2; n >= 0; n-- {
		next := w.newAgent(p, fmt.Sprintf("agent-%d", n+1))
		w.applyManifest(p, fmt.Sprintf("skills:\n  - {name: skill-%d, transport: http, url: %q, headers: {X-Agent-API-Key: %q}, auto_approve: true}\n",
			n, endpointURL(next), next.Key)+declare(n, fmt.Sprintf("{skill: skill-%d, prefix: next}", n)))
	}
	api := holdpoint.API{URL: p.URL, Token: w.newAgent(p, "agent-0").Key}
	id := beginTalk(t, api, "Who knows?")
	awaitTalk(t, patience, func() holdpoint.API { return api }, id, "idle")
	list := listEntries(t, api, id)
	if last := list[len(list)-1].Assistant; last == nil || !strings.Contains(last.Text, "too many agents ask each other") {
		t.Errorf("at last: %+v", last)
	}
	if n := len(model.Requests()); n != 10 { // five agents, each with a question and an answer
		t.Errorf("the model was asked %d times", n)
	}
}

// TestAskWithAttachments: files of a question reach the model as text or images.
func TestAskWithAttachments(t *testing.T) {
	t.Parallel()
	w, counting := newWorld(t), skill.NewCounting(t)
	model, url := startModel(t, func(*modelserver.Request) modelserver.Answer { return modelserver.Answer{Text: "I have read it."} })
	p := w.startServer()
	w.applyManifest(p, talkManifest(modelserver.OpenAI, url, counting.URL))
	agent := w.newAgent(p, "worker")
	var attached []string
	for name, content := range map[string]string{"invoice.csv": "date,amount\n2026-01-15,1250.00\n", "scan.png": "\x89PNG\r\n\x1a\nnot much of an image"} {
		path := writeFile(t, name, content)
		attached = append(attached, fmt.Sprintf(`{"file_id":%q}`, strings.TrimSpace(newCLI(p, agent.Key).Must(t, "files", "upload", path))))
	}
	answer, err := agent.CallTool(t.Context(), "ask", `{"message":"Read these.","attachments":[`+strings.Join(attached, ",")+`]}`)
	if err != nil || answer.Text() != "I have read it." {
		t.Fatalf("%+v, %v", answer, err)
	}
	said := model.Requests()[0].Last()
	for _, want := range []string{"Read these.", `[attached file "invoice.csv"`, "2026-01-15,1250.00", `[attached file "scan.png"`} {
		if !strings.Contains(said.Text, want) {
			t.Errorf("the model was told %q, want %q in it", said.Text, want)
		}
	}
	if len(said.Images) != 1 || said.Images[0] != "image/png" {
		t.Errorf("images %v", said.Images)
	}
	const unknown = `{"message":"x","attachments":[{"file_id":"018f0000-0000-7000-8000-000000000000"}]}`
	if answer, err := agent.CallTool(t.Context(), "ask", unknown); err != nil || answer.Error == nil || answer.Error.Code != -32602 {
		t.Errorf("an unknown file: %+v, %v", answer, err)
	}
}

package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestRealServerMeetsItsCaller: progress and questions of the real server-everything reach the caller, over both
// transports.
func TestRealServerMeetsItsCaller(t *testing.T) {
	t.Parallel()
	modules := npmModules(t)
	skills := map[string]tool.Server{
		"stdio": {
			Paths:   tool.Paths{Read: []string{modules}},
			SkillID: uuid.New(), Skill: "everything", Revision: 1, Transport: tool.Stdio,
			Command: []string{findNode(t), npmPackage(t, "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"},
		},
		"http": {SkillID: uuid.New(), Skill: "everything", Revision: 1, Transport: tool.HTTP, URL: startEverything(t)},
	}
	for name, skill := range skills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := mcptool.New(mcptool.Config{DataDir: newWorld(t).dataDir, Stdio: tool.StdioPolicy{On: true, Allow: [][]string{{}}, Paths: []string{modules}}})
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
				defer cancel()
				if err := source.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			r := &realServer{source: source, server: skill, definitions: map[string]*tool.Definition{}}
			listing, err := source.List(t.Context(), skill)
			if err != nil {
				t.Fatal(err)
			}
			for i := range listing.Tools {
				r.definitions[listing.Tools[i].Name] = &listing.Tools[i]
			}
			r.testQuestions(t)
			r.testProgress(t)
			r.testRequests(t)
			r.testTask(t)
		})
	}
}

// realServer is server-everything, with a caller that answers questions.
type realServer struct {
	source      *mcptool.Source
	server      tool.Server
	definitions map[string]*tool.Definition

	mu       sync.Mutex
	asked    []string
	progress []string
}

func (r *realServer) newCaller() tool.Caller {
	return tool.Caller{
		Capabilities: json.RawMessage(`{"elicitation":{"form":{}},"sampling":{}}`),
		Progress: func(params json.RawMessage) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress = append(r.progress, string(params))
		},
		Ask: func(_ context.Context, questions []tool.Question) ([]json.RawMessage, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			var answers []json.RawMessage
			for _, question := range questions {
				r.asked = append(r.asked, question.Method)
				answer := `{"action":"accept","content":{"name":"Ann Example","interpretation":"technical"}}`
				if question.Method == "sampling/createMessage" {
					answer = `{"role":"assistant","model":"none","content":{"type":"text","text":"a sampled answer"}}`
				}
				answers = append(answers, json.RawMessage(answer))
			}
			return answers, nil
		},
	}
}

func (r *realServer) callTool(t *testing.T, name, arguments string) string {
	t.Helper()
	definition := r.definitions[name]
	if definition == nil {
		t.Fatalf("the server has no tool %s", name)
	}
	result, err := r.source.Call(t.Context(), r.server, tool.CallRequest{
		CallID: uuid.New(), Tool: name, Arguments: json.RawMessage(arguments), Definition: definition,
		Timeout: time.Minute, Caller: r.newCaller(),
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(result.Raw)
}

func (r *realServer) testQuestions(t *testing.T) {
	t.Helper()
	if got := r.callTool(t, "trigger-elicitation-request", `{}`); !strings.Contains(got, "Ann Example") {
		t.Errorf("elicitation: %s", got)
	}
	if got := r.callTool(t, "trigger-sampling-request", `{"prompt":"?","maxTokens":10}`); !strings.Contains(got, "a sampled answer") {
		t.Errorf("sampling: %s", got)
	}
	if got := strings.Join(r.asked, " "); got != "elicitation/create sampling/createMessage" {
		t.Errorf("asked %s", got)
	}
}

func (r *realServer) testProgress(t *testing.T) {
	t.Helper()
	r.callTool(t, "trigger-long-running-operation", `{"duration":0.2,"steps":4}`)
	if len(r.progress) < 3 || !strings.HasPrefix(r.progress[0], `{"progress":1,"total":4`) { // the last may arrive after the result
		t.Errorf("progress %v", r.progress)
	}
}

// testTask calls a tool that requires a task and asks questions.
func (r *realServer) testTask(t *testing.T) {
	t.Helper()
	before := len(r.asked)
	if got := r.callTool(t, "simulate-research-query", `{"topic":"gates","ambiguous":true}`); !strings.Contains(got, "gates") {
		t.Errorf("research: %s", got)
	}
	if len(r.asked) != before+1 {
		t.Errorf("asked %v", r.asked[before:])
	}
}

func (r *realServer) testRequests(t *testing.T) {
	t.Helper()
	offers, err := r.source.Capabilities(t.Context(), r.server)
	if err != nil || !offers.Resources || !offers.Prompts || !offers.Completions || !offers.Logging || offers.Stateless() {
		t.Errorf("capabilities %+v, %v", offers, err)
	}
	for method, want := range map[string]string{
		"resources/list": `"resources":[`, "resources/templates/list": `"resourceTemplates":[`, "prompts/list": `"prompts":[`,
	} {
		raw, err := r.source.Request(t.Context(), r.server, tool.Request{Method: method, Timeout: time.Minute, Caller: r.newCaller()})
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %.300s, %v", method, raw, err)
		}
	}
}

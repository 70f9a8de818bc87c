package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/worldtest"
)

// TestFrameworks runs the agents of the folder frameworks. Their calls are approved after each has waited twice.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	server := w.startServer()
	w.applyManifest(server, strings.ReplaceAll(oneSkill(counting.URL, ""), "wait_budget: 2s", "wait_budget: 5s")+
		"  - {name: calm, wait_budget: 5s, pending_as: result, skills: [counting]}\n")
	keeper := w.invitePerson(server, "keeper", "operator")
	const prompt, state = "Record the number %d.", `{"name":"counting__record","arguments":{"n":%d}}`
	for n, example := range []struct{ name, agent, input string }{
		{"ai-sdk", "worker", prompt}, {"openai-agents", "worker", prompt}, {"langgraph", "calm", prompt}, {"ag-ui", "worker", state},
	} {
		t.Run(example.name, func(t *testing.T) {
			t.Parallel()
			model := &pollingModel{}
			url := httptest.NewServer(model)
			t.Cleanup(url.Close)
			cmd := exec.CommandContext(t.Context(), findNode(t), example.name+".mjs", fmt.Sprintf(example.input, n))
			cmd.Dir = frameworksFolder(t)
			var stdout, stderr worldtest.Log
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ENDPOINT=" + server.URL + "/agents/" + example.agent + "/mcp",
				"AGENT_KEY=" + keyBy(t, server, keeper, "agent", "key", "create", example.agent),
				"OPENAI_BASE_URL=" + url.URL + "/v1", "OPENAI_API_KEY=none",
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pending, err := pendingFor(t.Context(), strconv.Itoa(n), server)
			if err == nil {
				err = eventually.Poll(t.Context(), patience, func() error {
					if waits := model.countWaits() + strings.Count(stderr.String(), "interrupted until 20"); waits < 2 {
						return fmt.Errorf("waited %d times", waits)
					}
					return nil
				})
			}
			if err == nil {
				err = operatorAPI(server).Approve(t.Context(), pending)
			}
			if err != nil {
				_ = cmd.Process.Kill() // Wait says so
			}
			if ended := cmd.Wait(); err != nil || ended != nil {
				t.Fatalf("%v, %v: %s%s", err, ended, stdout.String(), stderr.String())
			}
			if !strings.Contains(stdout.String(), recordedText(n)) || counting.Count(strconv.Itoa(n)) != 1 {
				t.Errorf("recorded %d times, and printed %q", counting.Count(strconv.Itoa(n)), stdout.String())
			}
			if texts := model.listTexts(); example.agent == "calm" && strings.Contains(strings.Join(texts, "\n"), "fix your mistakes") {
				t.Errorf("the model was asked to mend a pending call: %q", texts)
			}
		})
	}
}

// frameworksFolder returns the folder of the agents, with their packages.
func frameworksFolder(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("frameworks")
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "node_modules"))
	}
	if err != nil {
		t.Fatalf("the npm packages of e2e/frameworks are not installed; run `task setup` (npm ci in e2e/frameworks): %v", err)
	}
	return folder
}

// pollingModel is a model with the API of OpenAI's chat completions. It calls the tool record, waits with holdpoint_await, and repeats the
// outcome.
type pollingModel struct {
	mu    sync.Mutex
	texts []string // of the last message of each request
}

func (m *pollingModel) listTexts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.texts...)
}

// countWaits returns how many pending answers it got.
func (m *pollingModel) countWaits() int {
	n := 0
	for _, text := range m.listTexts() {
		if strings.Contains(text, "was not executed yet") {
			n++
		}
	}
	return n
}

var (
	namedCall   = regexp.MustCompile(`call_id[^0-9a-f]+([0-9a-f-]{36})`)
	namedNumber = regexp.MustCompile(`[0-9]+`)
)

func (m *pollingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.Error(w, "a chat completion with messages is needed", http.StatusBadRequest)
		return
	}
	last := request.Messages[len(request.Messages)-1]
	text := string(last.Content)
	m.mu.Lock()
	m.texts = append(m.texts, text)
	turn := len(m.texts)
	m.mu.Unlock()
	message, finish := map[string]any{"role": "assistant", "content": text}, "stop"
	ask := func(tool, arguments string) {
		call := map[string]any{"id": fmt.Sprintf("call_%d", turn), "type": "function", "function": map[string]string{"name": tool, "arguments": arguments}}
		message, finish = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	if last.Role == "user" {
		ask("counting__record", `{"n":`+namedNumber.FindString(text)+`}`)
	} else if id := namedCall.FindStringSubmatch(text); id != nil {
		ask("holdpoint_await", `{"call_id":"`+id[1]+`"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may have disconnected
		"id": fmt.Sprintf("turn_%d", turn), "object": "chat.completion", "created": 1, "model": "some-model",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		"usage":   map[string]int{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	})
}

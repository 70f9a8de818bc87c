//go:build hosts

package hosts_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// model is a fake of the APIs of language models. It wants one tool call after the other, and then says that it is done.
type model struct {
	*httptest.Server
	steps   []step
	helpers [][]step // of conversations that subagents have, whose prompts end with the index

	mu       sync.Mutex
	results  []string        // what the model was told of its calls
	answered map[string]bool // calls that the model was told about, by mark
	offered  []string        // names of tools
	log      []string        // what it did not understand
}

// step is a call that the model wants.
type step struct {
	tools     []string // names of the tool; the first that the host offers
	arguments map[string]any
	input     string // of a tool that takes text only
}

var helperNumber = regexp.MustCompile(helperPrompt + ` (\d+)`)

func newModel(t testing.TB, steps ...step) *model {
	t.Helper()
	m := &model{steps: steps, answered: map[string]bool{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// toldResults returns what the model was told of its calls.
func (m *model) toldResults() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.results, "\n")
}

// choose returns the next call of a conversation: of those whose tool the host offers, the one after those whose results are there.
func (m *model) choose(body []byte, tools, results []string) (step, string, int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, result := range results {
		if !slices.Contains(m.results, result) {
			m.results = append(m.results, result)
		}
	}
	steps := m.steps
	if match := helperNumber.FindSubmatch(body); match != nil && !strings.Contains(string(body), mainPrompt) {
		conversation := string(match[1])
		n, err := strconv.Atoi(conversation)
		if err != nil || n >= len(m.helpers) {
			m.log = append(m.log, "no helper "+conversation)
			return step{}, "", 0, false
		}
		steps = m.helpers[n]
	}
	if len(tools) == 0 { // it is asked for a title or the like
		return step{}, "", 0, false
	}
	for _, name := range tools {
		if !slices.Contains(m.offered, name) {
			m.offered = append(m.offered, name)
		}
	}
	n := len(results)
	for _, s := range steps {
		at := slices.IndexFunc(s.tools, func(name string) bool { return slices.Contains(tools, name) })
		switch {
		case at < 0:
			if note := fmt.Sprintf("no %v among %v", s.tools, tools); !slices.Contains(m.log, note) {
				m.log = append(m.log, note)
			}
		case n == 0:
			return s.withIDs(m.results), s.tools[at], len(results), true
		default:
			n--
			m.answered[mark.FindString(encode(s.arguments)+s.input)] = true
		}
	}
	return step{}, "", 0, false
}

// wasTold reports whether the model was told what became of a marked call.
func (m *model) wasTold(mark string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered[mark]
}

var (
	agentID = regexp.MustCompile(`agent_id\W+([0-9a-f-]{36})`)
	callID  = regexp.MustCompile(`call_id\W+([0-9a-f-]{36})`)
)

// withIDs puts the id of the last subagent in place of AGENT, and that of the last pending call in place of CALL.
func (s step) withIDs(results []string) step {
	arguments := object{}
	for name, value := range s.arguments {
		if list, ok := value.([]string); ok && slices.Equal(list, []string{"AGENT"}) {
			if found := agentID.FindAllStringSubmatch(strings.Join(results, "\n"), -1); found != nil {
				value = []string{found[len(found)-1][1]}
			}
		}
		if found := callID.FindAllStringSubmatch(strings.Join(results, "\n"), -1); value == "CALL" && found != nil {
			value = found[len(found)-1][1]
		}
		arguments[name] = value
	}
	s.arguments = arguments
	return s
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	path := r.URL.Path
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[],"models":[]}`)
	case strings.HasSuffix(path, "/messages"):
		m.serveAnthropic(w, body)
	case strings.HasSuffix(path, "/responses"):
		m.serveResponses(w, body)
	case strings.HasSuffix(path, "/chat/completions"):
		m.serveCompletions(w, body)
	case strings.Contains(path, "generateContent") || strings.Contains(path, "GenerateContent"):
		m.serveGemini(w, body, strings.Contains(path, "stream"))
	case strings.HasSuffix(path, "/count_tokens") || strings.HasSuffix(path, ":countTokens"):
		fmt.Fprint(w, `{"input_tokens":10,"totalTokens":10}`)
	default:
		m.mu.Lock()
		m.log = append(m.log, r.Method+" "+r.URL.String())
		m.mu.Unlock()
		http.NotFound(w, r)
	}
}

// events writes server-sent events.
type events struct{ w http.ResponseWriter }

func newEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream")
	return events{w}
}

func (e events) send(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", text)
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// texts returns all texts of a JSON value, joined: the formats of results differ.
func texts(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var b strings.Builder
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, one := range v {
				collect(one)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				collect(v[name])
			}
		}
	}
	collect(v)
	return b.String()
}

type object = map[string]any

func (m *model) serveAnthropic(w http.ResponseWriter, body []byte) {
	var request struct {
		Model    string
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(body, &request)
	var tools, results []string
	for _, tool := range request.Tools {
		tools = append(tools, tool.Name)
	}
	for _, message := range request.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &blocks)
		for _, block := range blocks {
			if block.Type == "tool_result" {
				results = append(results, texts(block.Content))
			}
		}
	}
	block, stop := object{"type": "text", "text": ""}, "end_turn"
	delta := object{"type": "text_delta", "text": "done"}
	whole := object{"type": "text", "text": "done"}
	if next, name, n, ok := m.choose(body, tools, results); ok {
		id := fmt.Sprintf("toolu_%d_%d", len(body), n)
		block, stop = object{"type": "tool_use", "id": id, "name": name, "input": object{}}, "tool_use"
		delta = object{"type": "input_json_delta", "partial_json": encode(next.arguments)}
		whole = object{"type": "tool_use", "id": id, "name": name, "input": next.arguments}
	}
	message := object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": request.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 10, "output_tokens": 1},
	}
	if !request.Stream {
		message["content"], message["stop_reason"] = []any{whole}, stop
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, encode(message))
		return
	}
	e := newEvents(w)
	e.send("message_start", object{"type": "message_start", "message": message})
	e.send("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": block})
	e.send("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	e.send("content_block_stop", object{"type": "content_block_stop", "index": 0})
	e.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}})
	e.send("message_stop", object{"type": "message_stop"})
}

func (m *model) serveResponses(w http.ResponseWriter, body []byte) {
	var request struct {
		Tools []struct{ Name, Type string }
		Input []struct {
			Type   string
			Output json.RawMessage
			Tools  []struct { // of a namespace, that a search found
				Name  string
				Tools []struct{ Name string }
			}
		}
	}
	_ = json.Unmarshal(body, &request)
	var tools, results []string
	for _, tool := range request.Tools {
		tools = append(tools, cmp.Or(tool.Name, tool.Type))
	}
	for _, item := range request.Input {
		if strings.HasSuffix(item.Type, "call_output") || item.Type == "tool_search_output" {
			results = append(results, texts(item.Output))
		}
		for _, namespace := range item.Tools {
			for _, tool := range namespace.Tools {
				tools = append(tools, namespace.Name+"/"+tool.Name)
			}
		}
	}
	item := object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": "done", "annotations": []any{}}}}
	if next, name, n, ok := m.choose(body, tools, results); ok {
		id := fmt.Sprintf("call_%d_%d", len(body), n)
		item = object{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": name, "arguments": encode(next.arguments), "status": "completed"}
		if namespace, short, found := strings.Cut(name, "/"); found {
			item["namespace"], item["name"] = namespace, short
		}
		switch {
		case name == "tool_search":
			item = object{"type": "tool_search_call", "id": "ts_" + id, "call_id": id, "execution": "client", "arguments": next.arguments, "status": "completed"}
		case next.input != "":
			item = object{"type": "custom_tool_call", "id": "ct_" + id, "call_id": id, "name": name, "input": next.input, "status": "completed"}
		}
	}
	e := newEvents(w)
	e.send("response.created", object{"type": "response.created", "response": object{"id": "resp_1", "object": "response", "status": "in_progress", "output": []any{}}})
	e.send("response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": item})
	e.send("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	e.send("response.completed", object{"type": "response.completed", "response": object{
		"id": "resp_1", "object": "response", "status": "completed", "output": []any{item},
		"usage": object{"input_tokens": 10, "input_tokens_details": nil, "output_tokens": 5, "output_tokens_details": nil, "total_tokens": 15},
	}})
}

func (m *model) serveCompletions(w http.ResponseWriter, body []byte) {
	var request struct {
		Model    string
		Stream   bool
		Tools    []struct{ Function struct{ Name string } }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &request)
	var tools, results []string
	for _, tool := range request.Tools {
		tools = append(tools, tool.Function.Name)
	}
	for _, message := range request.Messages {
		if message.Role == "tool" {
			results = append(results, texts(message.Content))
		}
	}
	delta, stop := object{"role": "assistant", "content": "done"}, "stop"
	if next, name, n, ok := m.choose(body, tools, results); ok {
		delta, stop = object{"role": "assistant", "content": nil, "tool_calls": []any{object{
			"index": 0, "id": fmt.Sprintf("call_%d_%d", len(body), n), "type": "function", "function": object{"name": name, "arguments": encode(next.arguments)},
		}}}, "tool_calls"
	}
	usage := object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, encode(object{
			"id": "c1", "object": "chat.completion", "created": 1, "model": request.Model, "usage": usage,
			"choices": []any{object{"index": 0, "message": delta, "finish_reason": stop}},
		}))
		return
	}
	e := newEvents(w)
	chunk := func(delta object, stop any, usage any) {
		e.send("", object{
			"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": request.Model, "usage": usage,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": stop}},
		})
	}
	chunk(delta, nil, nil)
	chunk(object{}, stop, usage)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (m *model) serveGemini(w http.ResponseWriter, body []byte, stream bool) {
	var request struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	_ = json.Unmarshal(body, &request)
	var tools, results []string
	for _, tool := range request.Tools {
		for _, one := range tool.FunctionDeclarations {
			tools = append(tools, one.Name)
		}
	}
	for _, content := range request.Contents {
		for _, part := range content.Parts {
			if part.FunctionResponse != nil {
				results = append(results, texts(part.FunctionResponse.Response))
			}
		}
	}
	part := object{"text": "done"}
	if next, name, _, ok := m.choose(body, tools, results); ok {
		part = object{"functionCall": object{"name": name, "args": next.arguments}}
	} else if !stream {
		part = object{"text": `{"reasoning":"done","next_speaker":"user"}`}
	}
	answer := object{
		"candidates":    []any{object{"content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
	}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, encode(answer))
		return
	}
	newEvents(w).send("", answer)
}

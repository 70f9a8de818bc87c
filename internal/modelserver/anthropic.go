package modelserver

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// anthropic is the format of Anthropic's messages.
type anthropic struct{}

func (anthropic) readCredential(r *http.Request) string { return r.Header.Get("X-Api-Key") }

const maxCached = 4

func (anthropic) readRequest(r *http.Request, body []byte) (*Request, error) {
	if r.Header.Get("Anthropic-Version") == "" {
		return nil, newRefusal("anthropic-version: header is required")
	}
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	if name := o.findUnknown("model", "messages", "tools", "stream", "max_tokens", "system"); name != "" {
		return nil, newRefusal(name + ": Extra inputs are not permitted")
	}
	if n := strings.Count(string(body), `"cache_control"`); n > maxCached {
		return nil, newRefusal(fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n))
	}
	request := &Request{Format: Anthropic, Model: o.text("model"), Stream: o.bool("stream"), MaxTokens: o.number("max_tokens"), System: o.text("system")}
	switch {
	case request.Model == "":
		return nil, newRefusal("model: Field required")
	case !o.has("max_tokens"):
		return nil, newRefusal("max_tokens: Field required")
	case request.MaxTokens < 1:
		return nil, newRefusal("max_tokens: must be greater than or equal to 1")
	}
	for i, block := range o.list("system") {
		if strings.TrimSpace(block.text("text")) == "" {
			return nil, newRefusal(fmt.Sprintf("system.%d: text content blocks must be non-empty", i))
		}
		request.System += block.text("text")
	}
	seen := map[string]bool{}
	for i, tool := range o.list("tools") {
		schema, err := readTool(fmt.Sprintf("tools.%d", i), tool.text("name"), tool["input_schema"], seen)
		if err != nil {
			return nil, err
		}
		request.Tools = append(request.Tools, Tool{Name: tool.text("name"), Description: tool.text("description"), Schema: schema, Cached: tool.has("cache_control")})
	}
	return request, readAnthropicMessages(request, o.list("messages"))
}

func readAnthropicMessages(request *Request, list []object) error {
	if len(list) == 0 {
		return newRefusal("messages: at least one message is required")
	}
	roles := []string{"user", "assistant"}
	for i, m := range list {
		if m.text("role") != roles[i%len(roles)] {
			return newRefusal(fmt.Sprintf(`messages.%d: roles must alternate between "user" and "assistant", beginning with "user"`, i))
		}
		message, err := readAnthropicMessage(fmt.Sprintf("messages.%d", i), m)
		if err != nil {
			return err
		}
		var open []Call
		if i > 0 {
			open = request.Last().Calls
		}
		if err := checkResults(i, open, message.Results); err != nil {
			return err
		}
		request.Messages = append(request.Messages, message)
	}
	if request.Last().Role != "user" {
		return newRefusal("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// checkResults checks the results in a message against the calls of the message before.
func checkResults(i int, open []Call, results []Result) error {
	answered := map[string]bool{}
	for _, result := range results {
		found := slices.ContainsFunc(open, func(call Call) bool { return call.ID == result.CallID })
		switch {
		case !found:
			return newRefusal(fmt.Sprintf("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, result.CallID))
		case answered[result.CallID]:
			return newRefusal(fmt.Sprintf("messages.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, result.CallID))
		}
		answered[result.CallID] = true
	}
	if ids := findUnanswered(open, answered); len(ids) > 0 {
		return newRefusal(fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, strings.Join(ids, ", ")))
	}
	return nil
}

func readAnthropicMessage(where string, m object) (Message, error) {
	message := Message{Role: m.text("role"), Text: m.text("content")}
	if m.isText("content") {
		return message, checkNotBlank(where, message.Text)
	}
	blocks := m.list("content")
	if len(blocks) == 0 {
		return message, newRefusal(where + ".content: Field required")
	}
	said := false
	for i, block := range blocks {
		at := fmt.Sprintf("%s.content.%d", where, i)
		message.Cached = message.Cached || block.has("cache_control")
		kind := block.text("type")
		if kind == "tool_result" && said {
			return message, newRefusal(at + ": `tool_result` blocks must come first")
		}
		said = said || kind != "tool_result"
		if err := readBlock(&message, at, kind, block); err != nil {
			return message, err
		}
	}
	return message, nil
}

func checkNotBlank(where, text string) error {
	if strings.TrimSpace(text) == "" {
		return newRefusal(where + ": text content blocks must be non-empty")
	}
	return nil
}

func readBlock(message *Message, at, kind string, block object) error {
	switch message.Role + " " + kind {
	case "user text", "assistant text":
		message.Text += block.text("text")
		return checkNotBlank(at, block.text("text"))
	case "user image":
		source := block.object("source")
		message.Images = append(message.Images, source.text("media_type"))
		return checkImage(source.text("media_type"), source.text("data"))
	case "user tool_result":
		return readAnthropicResult(message, at, block)
	case "assistant tool_use":
		call := Call{ID: block.text("id"), Name: block.text("name"), Arguments: unescapeJSON(string(block["input"]))}
		switch {
		case !idForm.MatchString(call.ID):
			return newRefusal(at + ".id: String should match pattern '^[a-zA-Z0-9_-]+$'")
		case !nameForm.MatchString(call.Name):
			return newRefusal(at + ".name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
		case block.object("input") == nil:
			return newRefusal(at + ".input: Input should be a valid dictionary")
		}
		message.Calls = append(message.Calls, call)
		return nil
	case "assistant thinking":
		if block.text("signature") != signThinking(block.text("thinking")) {
			return newRefusal(at + ": Invalid `signature` in `thinking` block")
		}
		message.Thinking = append(message.Thinking, block.text("thinking"))
		return nil
	}
	return newRefusal(at + ": Input tag '" + kind + "' does not belong into a message of the " + message.Role)
}

// unescapeJSON reverses optional escapes of JSON encoders.
func unescapeJSON(text string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}

func readAnthropicResult(message *Message, at string, block object) error {
	result := Result{CallID: block.text("tool_use_id"), Text: block.text("content"), IsError: block.bool("is_error")}
	for _, part := range block.list("content") {
		switch part.text("type") {
		case "text":
			if err := checkNotBlank(at+".content", part.text("text")); err != nil {
				return err
			}
			result.Text += part.text("text")
		case "image":
			source := part.object("source")
			if err := checkImage(source.text("media_type"), source.text("data")); err != nil {
				return err
			}
			result.Images = append(result.Images, source.text("media_type"))
		default:
			return newRefusal(at + ".content: Input tag '" + part.text("type") + "' does not belong into a result")
		}
	}
	message.Results = append(message.Results, result)
	return nil
}

// signThinking returns the signature of a thinking block.
func signThinking(thinking string) string {
	sum := sha256.Sum256([]byte("modelserver\x00" + thinking))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func anthropicErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case StatusOverloaded:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// StatusOverloaded is Anthropic's HTTP status for an overloaded server.
const StatusOverloaded = 529

func (anthropic) writeRefusal(w http.ResponseWriter, e *refusal) {
	kind, message := cmp.Or(e.kind, anthropicErrorType(e.status)), cmp.Or(messageOr(e), "Overloaded")
	writeRefusalBody(w, e, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": "req_test"})
}

func anthropicStopReason(answer *Answer) string {
	switch answer.stopReason() {
	case StopToolCalls:
		return "tool_use"
	case StopMaxTokens:
		return "max_tokens"
	case StopRefusal:
		return "refusal"
	}
	return "end_turn"
}

// anthropicMessage builds an answer without content.
func anthropicMessage(request *Request, answer *Answer) map[string]any {
	u := countUsage(request, answer)
	return map[string]any{
		"model": request.Model, "id": "msg_" + strconv.Itoa(request.Number), "type": "message", "role": "assistant", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{
			"input_tokens": u.Input - u.Cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": u.Cached, "output_tokens": 1, "service_tier": "standard",
		},
	}
}

func (anthropic) buildWhole(request *Request, answer *Answer) any {
	var content []any
	if answer.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": answer.Thinking, "signature": signThinking(answer.Thinking)})
	}
	if answer.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": answer.Text})
	}
	for _, call := range answer.Calls {
		input := json.RawMessage(`{}`)
		if json.Valid([]byte(call.Arguments)) {
			input = json.RawMessage(call.Arguments)
		}
		content = append(content, map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": input})
	}
	message := anthropicMessage(request, answer)
	message["stop_reason"] = anthropicStopReason(answer)
	if content != nil {
		message["content"] = content
	}
	counted, _ := message["usage"].(map[string]any)
	counted["output_tokens"] = countUsage(request, answer).Output
	return message
}

// anthropicStream collects the events of an answer.
type anthropicStream struct {
	list  []event
	index int
}

func (s *anthropicStream) addEvent(name string, data map[string]any) {
	data["type"] = name
	s.list = append(s.list, event{name: name, data: encodeJSON(data)})
}

// addBlock adds a content block in several deltas.
func (s *anthropicStream) addBlock(start map[string]any, deltas ...map[string]any) {
	s.addEvent("content_block_start", map[string]any{"index": s.index, "content_block": start})
	if s.index == 0 {
		s.addEvent("ping", map[string]any{})
	}
	for _, delta := range deltas {
		s.addEvent("content_block_delta", map[string]any{"index": s.index, "delta": delta})
	}
	s.addEvent("content_block_stop", map[string]any{"index": s.index})
	s.index++
}

func (anthropic) buildEvents(request *Request, answer *Answer) []event {
	s := &anthropicStream{}
	s.addEvent("message_start", map[string]any{"message": anthropicMessage(request, answer)})
	if answer.Thinking != "" {
		deltas := buildDeltas("thinking_delta", "thinking", splitText(answer.Thinking))
		deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": signThinking(answer.Thinking)})
		s.addBlock(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if answer.Text != "" {
		s.addBlock(map[string]any{"type": "text", "text": ""}, buildDeltas("text_delta", "text", splitText(answer.Text))...)
	}
	for _, call := range answer.Calls {
		parts := append([]string{""}, splitText(call.Arguments)...)
		s.addBlock(map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": map[string]any{}}, buildDeltas("input_json_delta", "partial_json", parts)...)
	}
	s.addEvent("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": anthropicStopReason(answer), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": countUsage(request, answer).Output},
	})
	s.addEvent("message_stop", map[string]any{})
	return s.list
}

func buildDeltas(kind, member string, parts []string) []map[string]any {
	var deltas []map[string]any
	for _, part := range parts {
		deltas = append(deltas, map[string]any{"type": kind, member: part})
	}
	return deltas
}

func (anthropic) buildFailure(f Fault) event {
	kind, message := cmp.Or(f.Type, "overloaded_error"), cmp.Or(f.Message, "Overloaded")
	return event{"error", encodeJSON(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": "req_test"})}
}

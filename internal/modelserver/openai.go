package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// openAI is the format of OpenAI's chat completions.
type openAI struct{}

func (openAI) readCredential(r *http.Request) string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

func (openAI) readRequest(_ *http.Request, body []byte) (*Request, error) {
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	if name := o.findUnknown("model", "messages", "tools", "stream", "stream_options", "max_tokens", "max_completion_tokens"); name != "" {
		return nil, newRefusal("Unrecognized request argument supplied: " + name)
	}
	request := &Request{Format: OpenAI, Model: o.text("model"), Stream: o.bool("stream"), MaxTokens: o.number("max_tokens") + o.number("max_completion_tokens")}
	switch {
	case request.Model == "":
		return nil, newRefusal("you must provide a model parameter")
	case o.has("stream_options") && !request.Stream:
		return nil, newRefusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case o.has("max_tokens") && o.has("max_completion_tokens"):
		return nil, newRefusal("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case (o.has("max_tokens") || o.has("max_completion_tokens")) && request.MaxTokens < 1:
		return nil, newRefusal("Invalid 'max_tokens': integer below minimum value.")
	}
	seen := map[string]bool{}
	for i, tool := range o.list("tools") {
		function := tool.object("function")
		if tool.text("type") != "function" {
			return nil, newRefusal(fmt.Sprintf("tools[%d].type: must be function", i))
		}
		schema, err := readTool(fmt.Sprintf("tools[%d].function", i), function.text("name"), function["parameters"], seen)
		if err != nil {
			return nil, err
		}
		request.Tools = append(request.Tools, Tool{Name: function.text("name"), Description: function.text("description"), Schema: schema})
	}
	return request, readOpenAIMessages(request, o.list("messages"))
}

// readOpenAIMessages reads messages and joins the results of one message's calls.
func readOpenAIMessages(request *Request, list []object) error {
	if len(list) == 0 {
		return newRefusal("Invalid 'messages': empty array.")
	}
	t := &openAIReader{request: request}
	for i, m := range list {
		if m.text("role") != "tool" {
			if err := t.closeResults(); err != nil {
				return err
			}
		}
		if err := t.addMessage(fmt.Sprintf("messages.[%d]", i), m); err != nil {
			return err
		}
	}
	return t.closeResults()
}

// openAIReader reads a conversation message by message.
type openAIReader struct {
	request  *Request
	open     []Call // waiting for results
	answered map[string]bool
}

// closeResults checks that all open calls have results.
func (t *openAIReader) closeResults() error {
	if ids := findUnanswered(t.open, t.answered); len(ids) > 0 {
		return newRefusal("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: " + strings.Join(ids, ", "))
	}
	t.open = nil
	return nil
}

func (t *openAIReader) addMessage(where string, m object) error {
	var message Message
	var err error
	switch role := m.text("role"); role {
	case "system", "developer":
		t.request.System += m.text("content")
		if !m.isText("content") {
			return newRefusal("Invalid value for 'content' of " + where)
		}
		return nil
	case "user":
		message, err = readOpenAIUser(where, m)
	case "assistant":
		message, err = readOpenAIAssistant(where, m)
		t.open, t.answered = message.Calls, map[string]bool{}
	case "tool":
		return readOpenAIResult(t.request, where, m, t.open, t.answered)
	default:
		return newRefusal("Invalid value for 'role' of " + where + ": " + role)
	}
	t.request.Messages = append(t.request.Messages, message)
	return err
}

var dataURL = regexp.MustCompile(`^data:([a-z]+/[a-z]+);base64,(.*)$`)

func readOpenAIUser(where string, m object) (Message, error) {
	message := Message{Role: "user", Text: m.text("content")}
	if m.isText("content") {
		if message.Text == "" {
			return message, newRefusal("Invalid 'content' of " + where + ": empty string")
		}
		return message, nil
	}
	parts := m.list("content")
	if len(parts) == 0 {
		return message, newRefusal("Invalid type for 'content' of " + where)
	}
	for _, part := range parts {
		switch part.text("type") {
		case "text":
			if part.text("text") == "" {
				return message, newRefusal("Invalid 'content' of " + where + ": text content is empty")
			}
			message.Text += part.text("text") + "\n"
		case "image_url":
			found := dataURL.FindStringSubmatch(part.object("image_url").text("url"))
			if found == nil {
				return message, newRefusal("Invalid 'image_url' of " + where)
			}
			if err := checkImage(found[1], found[2]); err != nil {
				return message, err
			}
			message.Images = append(message.Images, found[1])
		default:
			return message, newRefusal("Invalid value for 'type' of content of " + where)
		}
	}
	return message, nil
}

func readOpenAIAssistant(where string, m object) (Message, error) {
	message := Message{Role: "assistant", Text: m.text("content")}
	if name := m.findUnknown("role", "content", "tool_calls", "refusal", "name"); name != "" {
		return message, newRefusal("Additional properties are not allowed ('" + name + "' was unexpected) - '" + where + "'")
	}
	seen := map[string]bool{}
	for _, c := range m.list("tool_calls") {
		function := c.object("function")
		call := Call{ID: c.text("id"), Name: function.text("name"), Arguments: function.text("arguments")}
		switch {
		case c.text("type") != "function", call.ID == "", !function.isText("arguments"):
			return message, newRefusal("Missing required parameter of tool_calls of " + where)
		case seen[call.ID]:
			return message, newRefusal("Duplicate tool call id " + call.ID + " in " + where)
		case !nameForm.MatchString(call.Name):
			return message, newRefusal("Invalid 'function.name' of tool_calls of " + where + ": string does not match pattern '^[a-zA-Z0-9_-]+$'.")
		case !json.Valid([]byte(call.Arguments)): // some servers' templates parse them
			return message, newRefusal("function.arguments of tool_calls of " + where + " must be JSON")
		}
		seen[call.ID] = true
		message.Calls = append(message.Calls, call)
	}
	if !m.isText("content") && len(message.Calls) == 0 {
		return message, newRefusal("Invalid value for 'content' of " + where + ": expected a string, got null.")
	}
	return message, nil
}

func readOpenAIResult(request *Request, where string, m object, open []Call, answered map[string]bool) error {
	result := Result{CallID: m.text("tool_call_id"), Text: m.text("content")}
	if !m.isText("content") {
		for _, part := range m.list("content") {
			if part.text("type") != "text" {
				return newRefusal("Invalid value for 'content' of " + where + ": tool messages take text only")
			}
			result.Text += part.text("text")
		}
	}
	found := slices.ContainsFunc(open, func(call Call) bool { return call.ID == result.CallID })
	switch {
	case !found:
		return newRefusal("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
	case answered[result.CallID]:
		return newRefusal("Duplicate response to tool call " + result.CallID)
	}
	answered[result.CallID] = true
	if last := request.Last(); last.Role == "assistant" {
		request.Messages = append(request.Messages, Message{Role: "user"})
	}
	last := &request.Messages[len(request.Messages)-1]
	last.Results = append(last.Results, result)
	return nil
}

func (openAI) writeRefusal(w http.ResponseWriter, e *refusal) {
	kind, code := e.kind, e.code
	switch {
	case kind != "":
	case e.status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case e.status >= http.StatusInternalServerError:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	writeRefusalBody(w, e, map[string]any{"error": map[string]any{"message": messageOr(e), "type": kind, "param": nil, "code": orNull(code)}})
}

const created = 1_760_000_000 // any time

func openAIFinishReason(answer *Answer) string {
	switch answer.stopReason() {
	case StopToolCalls:
		if answer.Quirks.FinishStop {
			return "stop"
		}
		return "tool_calls"
	case StopMaxTokens:
		return "length"
	case StopRefusal:
		return "content_filter"
	}
	return "stop"
}

func openAIUsage(request *Request, answer *Answer) map[string]any {
	u := countUsage(request, answer)
	return map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
}

// openAICall builds a call, or the first delta of one.
func openAICall(call Call, index int, arguments string, q Quirks) map[string]any {
	function := map[string]any{"name": call.Name, "arguments": arguments}
	if q.ObjectArguments && json.Valid([]byte(arguments)) {
		function["arguments"] = json.RawMessage(arguments)
	}
	c := map[string]any{"index": index, "id": call.ID, "type": "function", "function": function}
	switch {
	case q.NoIDs:
		delete(c, "id")
	case q.SameIDs:
		c["id"] = "call_0"
	}
	switch {
	case q.NoIndex:
		delete(c, "index")
	case q.ZeroIndex:
		c["index"] = 0
	}
	return c
}

func (openAI) buildWhole(request *Request, answer *Answer) any {
	message := map[string]any{"role": "assistant", "content": orNull(answer.Text), "refusal": nil}
	if answer.Thinking != "" {
		message["reasoning_content"] = answer.Thinking
	}
	var calls []map[string]any
	for _, call := range answer.Calls {
		c := openAICall(call, 0, call.Arguments, answer.Quirks)
		delete(c, "index")
		calls = append(calls, c)
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	completion := map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(request.Number), "object": "chat.completion", "created": created, "model": request.Model,
		"choices":      []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": openAIFinishReason(answer)}},
		"service_tier": "default", "system_fingerprint": "fp_test",
	}
	if !answer.Quirks.NoUsage {
		completion["usage"] = openAIUsage(request, answer)
	}
	return completion
}

// openAIStream collects the events of an answer.
type openAIStream struct {
	request *Request
	answer  *Answer
	counted bool // the request asked for usage
	list    []event
}

func (s *openAIStream) addChunk(choices []any, usage any) {
	c := map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(s.request.Number), "object": "chat.completion.chunk", "created": created, "model": s.request.Model,
		"service_tier": "default", "system_fingerprint": "fp_test", "choices": choices,
	}
	if s.counted {
		c["usage"] = usage
	}
	s.list = append(s.list, event{data: encodeJSON(c)})
}

func (s *openAIStream) addDelta(delta map[string]any, finish any) {
	s.addChunk([]any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (openAI) buildEvents(request *Request, answer *Answer) []event {
	var asked struct {
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(request.Body, &asked)
	s := &openAIStream{request: request, answer: answer, counted: asked.Options.IncludeUsage && !answer.Quirks.NoUsage}
	first := map[string]any{"role": "assistant", "content": "", "refusal": nil}
	if answer.Text == "" || answer.Quirks.NullContent {
		first["content"] = nil
	}
	s.addDelta(first, nil)
	for _, piece := range splitText(answer.Thinking) {
		s.addDelta(map[string]any{"reasoning_content": piece, "content": nil}, nil)
	}
	for _, piece := range splitText(answer.Text) {
		s.addDelta(map[string]any{"content": piece}, nil)
	}
	for i, call := range answer.Calls {
		s.addCall(i, call)
	}
	if !answer.Quirks.NoFinish {
		s.addDelta(map[string]any{}, openAIFinishReason(answer))
	}
	if s.counted {
		s.addChunk([]any{}, openAIUsage(request, answer))
	}
	if !answer.Quirks.NoDone {
		s.list = append(s.list, event{data: "[DONE]"})
	}
	return s.list
}

func (s *openAIStream) addCall(i int, call Call) {
	q := s.answer.Quirks
	if q.WholeCalls || q.ObjectArguments {
		s.addDelta(map[string]any{"tool_calls": []any{openAICall(call, i, call.Arguments, q)}}, nil)
		return
	}
	s.addDelta(map[string]any{"tool_calls": []any{openAICall(call, i, "", q)}}, nil)
	for _, piece := range splitText(call.Arguments) {
		c := map[string]any{"index": i, "function": map[string]any{"arguments": piece}}
		switch {
		case q.NoIndex:
			delete(c, "index")
		case q.ZeroIndex:
			c["index"] = 0
		}
		s.addDelta(map[string]any{"tool_calls": []any{c}}, nil)
	}
}

func (openAI) buildFailure(f Fault) event {
	kind := cmp.Or(f.Type, "server_error")
	message := cmp.Or(f.Message, "The server had an error while processing your request. Sorry about that!")
	return event{data: encodeJSON(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": orNull(f.Code)}})}
}

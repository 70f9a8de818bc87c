package modelserver

import (
	"encoding/json"
	"strconv"
)

func stopReason(answer *Answer) string {
	switch answer.stop() {
	case StopToolCalls:
		return "tool_use"
	case StopMaxTokens:
		return "max_tokens"
	case StopRefusal:
		return "refusal"
	}
	return "end_turn"
}

// anthropicMessage is an answer without its content.
func anthropicMessage(request *Request, answer *Answer) map[string]any {
	u := usage(request, answer)
	return map[string]any{
		"model": request.Model, "id": "msg_" + strconv.Itoa(request.Number), "type": "message", "role": "assistant", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{
			"input_tokens": u.Input - u.Cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": u.Cached, "output_tokens": 1, "service_tier": "standard",
		},
	}
}

func (anthropic) whole(request *Request, answer *Answer) any {
	var content []any
	if answer.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": answer.Thinking, "signature": sign(answer.Thinking)})
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
	message["stop_reason"] = stopReason(answer)
	if content != nil {
		message["content"] = content
	}
	counted, _ := message["usage"].(map[string]any)
	counted["output_tokens"] = usage(request, answer).Output
	return message
}

// anthropicStream is what events are made of.
type anthropicStream struct {
	list  []event
	index int
}

func (s *anthropicStream) add(name string, data map[string]any) {
	data["type"] = name
	s.list = append(s.list, event{name: name, data: encode(data)})
}

// block adds a content block that comes in pieces.
func (s *anthropicStream) block(start map[string]any, deltas ...map[string]any) {
	s.add("content_block_start", map[string]any{"index": s.index, "content_block": start})
	if s.index == 0 {
		s.add("ping", map[string]any{})
	}
	for _, delta := range deltas {
		s.add("content_block_delta", map[string]any{"index": s.index, "delta": delta})
	}
	s.add("content_block_stop", map[string]any{"index": s.index})
	s.index++
}

func (anthropic) events(request *Request, answer *Answer) []event {
	s := &anthropicStream{}
	s.add("message_start", map[string]any{"message": anthropicMessage(request, answer)})
	if answer.Thinking != "" {
		deltas := deltasOf("thinking_delta", "thinking", pieces(answer.Thinking))
		deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": sign(answer.Thinking)})
		s.block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if answer.Text != "" {
		s.block(map[string]any{"type": "text", "text": ""}, deltasOf("text_delta", "text", pieces(answer.Text))...)
	}
	for _, call := range answer.Calls {
		parts := append([]string{""}, pieces(call.Arguments)...)
		s.block(map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": map[string]any{}}, deltasOf("input_json_delta", "partial_json", parts)...)
	}
	s.add("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stopReason(answer), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": usage(request, answer).Output},
	})
	s.add("message_stop", map[string]any{})
	return s.list
}

func deltasOf(kind, member string, parts []string) []map[string]any {
	var deltas []map[string]any
	for _, part := range parts {
		deltas = append(deltas, map[string]any{"type": kind, member: part})
	}
	return deltas
}

func (anthropic) failure(f Fault) event {
	kind, message := f.Type, f.Message
	if kind == "" {
		kind = "overloaded_error"
	}
	if message == "" {
		message = "Overloaded"
	}
	return event{"error", encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": "req_test"})}
}

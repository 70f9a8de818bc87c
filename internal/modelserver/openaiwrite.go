package modelserver

import (
	"encoding/json"
	"strconv"
)

const created = 1_760_000_000 // any time will do

func finishReason(answer *Answer) string {
	switch answer.stop() {
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
	u := usage(request, answer)
	return map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
}

// openAICall is a call, or the piece of one that begins it.
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

func (openAI) whole(request *Request, answer *Answer) any {
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
		"choices":      []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": finishReason(answer)}},
		"service_tier": "default", "system_fingerprint": "fp_test",
	}
	if !answer.Quirks.NoUsage {
		completion["usage"] = openAIUsage(request, answer)
	}
	return completion
}

// openAIStream is what events are made of.
type openAIStream struct {
	request *Request
	answer  *Answer
	counted bool // usage was asked for
	list    []event
}

func (s *openAIStream) chunk(choices []any, usage any) {
	c := map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(s.request.Number), "object": "chat.completion.chunk", "created": created, "model": s.request.Model,
		"service_tier": "default", "system_fingerprint": "fp_test", "choices": choices,
	}
	if s.counted {
		c["usage"] = usage
	}
	s.list = append(s.list, event{data: encode(c)})
}

func (s *openAIStream) delta(delta map[string]any, finish any) {
	s.chunk([]any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (openAI) events(request *Request, answer *Answer) []event {
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
	s.delta(first, nil)
	for _, piece := range pieces(answer.Thinking) {
		s.delta(map[string]any{"reasoning_content": piece, "content": nil}, nil)
	}
	for _, piece := range pieces(answer.Text) {
		s.delta(map[string]any{"content": piece}, nil)
	}
	for i, call := range answer.Calls {
		s.call(i, call)
	}
	if !answer.Quirks.NoFinish {
		s.delta(map[string]any{}, finishReason(answer))
	}
	if s.counted {
		s.chunk([]any{}, openAIUsage(request, answer))
	}
	if !answer.Quirks.NoDone {
		s.list = append(s.list, event{data: "[DONE]"})
	}
	return s.list
}

func (s *openAIStream) call(i int, call Call) {
	q := s.answer.Quirks
	if q.WholeCalls || q.ObjectArguments {
		s.delta(map[string]any{"tool_calls": []any{openAICall(call, i, call.Arguments, q)}}, nil)
		return
	}
	s.delta(map[string]any{"tool_calls": []any{openAICall(call, i, "", q)}}, nil)
	for _, piece := range pieces(call.Arguments) {
		c := map[string]any{"index": i, "function": map[string]any{"arguments": piece}}
		switch {
		case q.NoIndex:
			delete(c, "index")
		case q.ZeroIndex:
			c["index"] = 0
		}
		s.delta(map[string]any{"tool_calls": []any{c}}, nil)
	}
}

func (openAI) failure(f Fault) event {
	kind, message := f.Type, f.Message
	if kind == "" {
		kind = "server_error"
	}
	if message == "" {
		message = "The server had an error while processing your request. Sorry about that!"
	}
	return event{data: encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": orNull(f.Code)}})}
}

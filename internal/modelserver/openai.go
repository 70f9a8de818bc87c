package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// openAI is the format of chat completions.
type openAI struct{}

func (openAI) credential(r *http.Request) string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

func (openAI) read(_ *http.Request, body []byte) (*Request, error) {
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	if name := o.unknown("model", "messages", "tools", "stream", "stream_options", "max_tokens", "max_completion_tokens"); name != "" {
		return nil, invalid("Unrecognized request argument supplied: " + name)
	}
	request := &Request{Format: OpenAI, Model: o.text("model"), Stream: o.bool("stream"), MaxTokens: o.number("max_tokens") + o.number("max_completion_tokens")}
	switch {
	case request.Model == "":
		return nil, invalid("you must provide a model parameter")
	case o.has("stream_options") && !request.Stream:
		return nil, invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case o.has("max_tokens") && o.has("max_completion_tokens"):
		return nil, invalid("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case (o.has("max_tokens") || o.has("max_completion_tokens")) && request.MaxTokens < 1:
		return nil, invalid("Invalid 'max_tokens': integer below minimum value.")
	}
	seen := map[string]bool{}
	for i, tool := range o.list("tools") {
		function := tool.object("function")
		if tool.text("type") != "function" {
			return nil, invalid(fmt.Sprintf("tools[%d].type: must be function", i))
		}
		schema, err := readTool(fmt.Sprintf("tools[%d].function", i), function.text("name"), function["parameters"], seen)
		if err != nil {
			return nil, err
		}
		request.Tools = append(request.Tools, Tool{Name: function.text("name"), Description: function.text("description"), Schema: schema})
	}
	return request, readOpenAIMessages(request, o.list("messages"))
}

// readOpenAIMessages takes results together that answer the calls of one message.
func readOpenAIMessages(request *Request, list []object) error {
	if len(list) == 0 {
		return invalid("Invalid 'messages': empty array.")
	}
	t := &turns{request: request}
	for i, m := range list {
		if m.text("role") != "tool" {
			if err := t.close(); err != nil {
				return err
			}
		}
		if err := t.add(fmt.Sprintf("messages.[%d]", i), m); err != nil {
			return err
		}
	}
	return t.close()
}

// turns reads a conversation message by message.
type turns struct {
	request  *Request
	open     []Call // that are to be answered
	answered map[string]bool
}

// close ends the results of the calls that are open.
func (t *turns) close() error {
	if ids := missing(t.open, t.answered); len(ids) > 0 {
		return invalid("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: " + strings.Join(ids, ", "))
	}
	t.open = nil
	return nil
}

func (t *turns) add(where string, m object) error {
	var message Message
	var err error
	switch role := m.text("role"); role {
	case "system", "developer":
		t.request.System += m.text("content")
		if !m.isText("content") {
			return invalid("Invalid value for 'content' of " + where)
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
		return invalid("Invalid value for 'role' of " + where + ": " + role)
	}
	t.request.Messages = append(t.request.Messages, message)
	return err
}

var dataURL = regexp.MustCompile(`^data:([a-z]+/[a-z]+);base64,(.*)$`)

func readOpenAIUser(where string, m object) (Message, error) {
	message := Message{Role: "user", Text: m.text("content")}
	if m.isText("content") {
		if message.Text == "" {
			return message, invalid("Invalid 'content' of " + where + ": empty string")
		}
		return message, nil
	}
	parts := m.list("content")
	if len(parts) == 0 {
		return message, invalid("Invalid type for 'content' of " + where)
	}
	for _, part := range parts {
		switch part.text("type") {
		case "text":
			if part.text("text") == "" {
				return message, invalid("Invalid 'content' of " + where + ": text content is empty")
			}
			message.Text += part.text("text") + "\n"
		case "image_url":
			found := dataURL.FindStringSubmatch(part.object("image_url").text("url"))
			if found == nil {
				return message, invalid("Invalid 'image_url' of " + where)
			}
			if err := checkImage(found[1], found[2]); err != nil {
				return message, err
			}
			message.Images = append(message.Images, found[1])
		default:
			return message, invalid("Invalid value for 'type' of content of " + where)
		}
	}
	return message, nil
}

func readOpenAIAssistant(where string, m object) (Message, error) {
	message := Message{Role: "assistant", Text: m.text("content")}
	if name := m.unknown("role", "content", "tool_calls", "refusal", "name"); name != "" {
		return message, invalid("Additional properties are not allowed ('" + name + "' was unexpected) - '" + where + "'")
	}
	seen := map[string]bool{}
	for _, c := range m.list("tool_calls") {
		function := c.object("function")
		call := Call{ID: c.text("id"), Name: function.text("name"), Arguments: function.text("arguments")}
		switch {
		case c.text("type") != "function", call.ID == "", !function.isText("arguments"):
			return message, invalid("Missing required parameter of tool_calls of " + where)
		case seen[call.ID]:
			return message, invalid("Duplicate tool call id " + call.ID + " in " + where)
		case !nameForm.MatchString(call.Name):
			return message, invalid("Invalid 'function.name' of tool_calls of " + where + ": string does not match pattern '^[a-zA-Z0-9_-]+$'.")
		case !json.Valid([]byte(call.Arguments)): // of servers whose templates read them
			return message, invalid("function.arguments of tool_calls of " + where + " must be JSON")
		}
		seen[call.ID] = true
		message.Calls = append(message.Calls, call)
	}
	if !m.isText("content") && len(message.Calls) == 0 {
		return message, invalid("Invalid value for 'content' of " + where + ": expected a string, got null.")
	}
	return message, nil
}

func readOpenAIResult(request *Request, where string, m object, open []Call, answered map[string]bool) error {
	result := Result{CallID: m.text("tool_call_id"), Text: m.text("content")}
	if !m.isText("content") {
		for _, part := range m.list("content") {
			if part.text("type") != "text" {
				return invalid("Invalid value for 'content' of " + where + ": tool messages take text only")
			}
			result.Text += part.text("text")
		}
	}
	found := false
	for _, call := range open {
		found = found || call.ID == result.CallID
	}
	switch {
	case !found:
		return invalid("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
	case answered[result.CallID]:
		return invalid("Duplicate response to tool call " + result.CallID)
	}
	answered[result.CallID] = true
	if last := request.Last(); last.Role == "assistant" {
		request.Messages = append(request.Messages, Message{Role: "user"})
	}
	last := &request.Messages[len(request.Messages)-1]
	last.Results = append(last.Results, result)
	return nil
}

func (openAI) refuse(w http.ResponseWriter, e *refusal) {
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
	writeRefusal(w, e, map[string]any{"error": map[string]any{"message": messageOr(e), "type": kind, "param": nil, "code": orNull(code)}})
}

func messageOr(e *refusal) string {
	if e.message != "" {
		return e.message
	}
	return http.StatusText(e.status)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func writeRefusal(w http.ResponseWriter, e *refusal, body any) {
	w.Header().Set("Content-Type", "application/json")
	if e.retryAfter != "" {
		w.Header().Set("Retry-After", e.retryAfter)
	}
	w.WriteHeader(e.status)
	_, _ = w.Write([]byte(encode(body)))
}

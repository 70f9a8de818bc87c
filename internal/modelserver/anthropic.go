package modelserver

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is the format of messages.
type anthropic struct{}

func (anthropic) credential(r *http.Request) string { return r.Header.Get("X-Api-Key") }

const maxCached = 4

func (anthropic) read(r *http.Request, body []byte) (*Request, error) {
	if r.Header.Get("Anthropic-Version") == "" {
		return nil, invalid("anthropic-version: header is required")
	}
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	if name := o.unknown("model", "messages", "tools", "stream", "max_tokens", "system"); name != "" {
		return nil, invalid(name + ": Extra inputs are not permitted")
	}
	if n := strings.Count(string(body), `"cache_control"`); n > maxCached {
		return nil, invalid(fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n))
	}
	request := &Request{Format: Anthropic, Model: o.text("model"), Stream: o.bool("stream"), MaxTokens: o.number("max_tokens"), System: o.text("system")}
	switch {
	case request.Model == "":
		return nil, invalid("model: Field required")
	case !o.has("max_tokens"):
		return nil, invalid("max_tokens: Field required")
	case request.MaxTokens < 1:
		return nil, invalid("max_tokens: must be greater than or equal to 1")
	}
	for i, block := range o.list("system") {
		if strings.TrimSpace(block.text("text")) == "" {
			return nil, invalid(fmt.Sprintf("system.%d: text content blocks must be non-empty", i))
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
		return invalid("messages: at least one message is required")
	}
	roles := []string{"user", "assistant"}
	for i, m := range list {
		if m.text("role") != roles[i%len(roles)] {
			return invalid(fmt.Sprintf(`messages.%d: roles must alternate between "user" and "assistant", beginning with "user"`, i))
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
		return invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// checkResults holds the results of a message against the calls of the one before.
func checkResults(i int, open []Call, results []Result) error {
	answered := map[string]bool{}
	for _, result := range results {
		found := false
		for _, call := range open {
			found = found || call.ID == result.CallID
		}
		switch {
		case !found:
			return invalid(fmt.Sprintf("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, result.CallID))
		case answered[result.CallID]:
			return invalid(fmt.Sprintf("messages.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, result.CallID))
		}
		answered[result.CallID] = true
	}
	if ids := missing(open, answered); len(ids) > 0 {
		return invalid(fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, strings.Join(ids, ", ")))
	}
	return nil
}

func readAnthropicMessage(where string, m object) (Message, error) {
	message := Message{Role: m.text("role"), Text: m.text("content")}
	if m.isText("content") {
		return message, notBlank(where, message.Text)
	}
	blocks := m.list("content")
	if len(blocks) == 0 {
		return message, invalid(where + ".content: Field required")
	}
	said := false
	for i, block := range blocks {
		at := fmt.Sprintf("%s.content.%d", where, i)
		message.Cached = message.Cached || block.has("cache_control")
		kind := block.text("type")
		if kind == "tool_result" && said {
			return message, invalid(at + ": `tool_result` blocks must come first")
		}
		said = said || kind != "tool_result"
		if err := readBlock(&message, at, kind, block); err != nil {
			return message, err
		}
	}
	return message, nil
}

func notBlank(where, text string) error {
	if strings.TrimSpace(text) == "" {
		return invalid(where + ": text content blocks must be non-empty")
	}
	return nil
}

func readBlock(message *Message, at, kind string, block object) error {
	switch message.Role + " " + kind {
	case "user text", "assistant text":
		message.Text += block.text("text")
		return notBlank(at, block.text("text"))
	case "user image":
		source := block.object("source")
		message.Images = append(message.Images, source.text("media_type"))
		return checkImage(source.text("media_type"), source.text("data"))
	case "user tool_result":
		return readAnthropicResult(message, at, block)
	case "assistant tool_use":
		call := Call{ID: block.text("id"), Name: block.text("name"), Arguments: unescaped(string(block["input"]))}
		switch {
		case !idForm.MatchString(call.ID):
			return invalid(at + ".id: String should match pattern '^[a-zA-Z0-9_-]+$'")
		case !nameForm.MatchString(call.Name):
			return invalid(at + ".name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
		case block.object("input") == nil:
			return invalid(at + ".input: Input should be a valid dictionary")
		}
		message.Calls = append(message.Calls, call)
		return nil
	case "assistant thinking":
		if block.text("signature") != sign(block.text("thinking")) {
			return invalid(at + ": Invalid `signature` in `thinking` block")
		}
		message.Thinking = append(message.Thinking, block.text("thinking"))
		return nil
	}
	return invalid(at + ": Input tag '" + kind + "' does not belong into a message of the " + message.Role)
}

// unescaped is JSON as people write it: encoders may escape these.
func unescaped(text string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}

func readAnthropicResult(message *Message, at string, block object) error {
	result := Result{CallID: block.text("tool_use_id"), Text: block.text("content"), IsError: block.bool("is_error")}
	for _, part := range block.list("content") {
		switch part.text("type") {
		case "text":
			if err := notBlank(at+".content", part.text("text")); err != nil {
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
			return invalid(at + ".content: Input tag '" + part.text("type") + "' does not belong into a result")
		}
	}
	message.Results = append(message.Results, result)
	return nil
}

// sign is the signature of a thinking block.
func sign(thinking string) string {
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

// StatusOverloaded is Anthropic's own HTTP status.
const StatusOverloaded = 529

func (anthropic) refuse(w http.ResponseWriter, e *refusal) {
	kind, message := e.kind, messageOr(e)
	if kind == "" {
		kind = anthropicErrorType(e.status)
	}
	if message == "" {
		message = "Overloaded"
	}
	writeRefusal(w, e, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": "req_test"})
}

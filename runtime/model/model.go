// Package model owns the interface to language models: requests and responses in terms of all providers. It has no
// conversations, makes no tool calls and stores nothing. Packages below it speak the providers' wire formats.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Provider asks models. It is safe for concurrent use.
type Provider interface {
	// Generate makes one request and returns the complete response. Before that it passes parts of the text to sink, in order
	// and from one goroutine; sink may be nil. Errors are *Error. A stream that breaks off is an error, even after some text.
	Generate(ctx context.Context, request *Request, sink func(Delta)) (*Response, error)
}

// Request is one request to a model. It has the whole conversation, because models have no memory.
type Request struct {
	Model        string // the provider's name for it
	Instructions string // the system prompt; may be empty
	Messages     []Message
	Tools        []Tool
	MaxTokens    int // bounds the answer; zero: the provider's default
}

// Role is the sender of a message.
type Role string

// The roles of messages. A message of the user has the results of tools: each [ToolCall] in a message of the assistant has a
// [ToolResult] in the next message.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is a message of one role.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is a part of a message. Exactly one of its fields is set.
type Part struct {
	Text   *Text       `json:"text,omitempty"`
	Image  *Image      `json:"image,omitempty"`
	Call   *ToolCall   `json:"call,omitempty"`
	Result *ToolResult `json:"result,omitempty"`
	// Opaque is data for the provider that made it, such as signed reasoning. Other providers leave it out.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Text is plain text.
type Text struct {
	Text string `json:"text"`
}

// Image is a picture, for models that can see.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}

// ToolCall is the model's request to call a tool.
type ToolCall struct {
	ID        string `json:"id"`        // the provider's id, which links the result; never empty
	Name      string `json:"name"`      // as the model wrote it; it may be unknown
	Arguments string `json:"arguments"` // as the model wrote them; may be empty or invalid JSON
}

// ToolResult is the result of a tool call, in text and images.
type ToolResult struct {
	CallID  string `json:"call_id"` // the id of the [ToolCall]
	IsError bool   `json:"is_error,omitempty"`
	Parts   []Part `json:"parts"` // texts and images
}

// Opaque is kept and sent back byte for byte.
type Opaque struct {
	Provider string          `json:"provider"`
	Value    json.RawMessage `json:"value"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string // at most 64 characters of [A-Za-z0-9_-]
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// Delta is a change of the answer's text while it arrives.
type Delta struct {
	Text string // added to the text
	// Restart: the request is made again after an error. The text so far is void.
	Restart bool
}

// Response is a complete answer.
type Response struct {
	Parts []Part // texts, calls and opaque data, in the model's order
	Stop  StopReason
	Usage Usage
	Model string // the model that answered, which may differ from the requested one
	ID    string // the provider's id of the answer; may be empty
}

// StopReason is the reason why an answer ended.
type StopReason string

// The reasons why answers end.
const (
	StopEnd       StopReason = "end"        // the model finished
	StopToolCalls StopReason = "tool_calls" // it wants tool calls
	StopMaxTokens StopReason = "max_tokens" // the answer reached its limit; an incomplete call is left out
	StopRefusal   StopReason = "refusal"    // the model, or its provider's filter, refused
)

// Usage counts tokens by the provider's count.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`        // of the request, including cached ones
	CachedInputTokens int64 `json:"cached_input_tokens"` // of the request, read from a cache
	OutputTokens      int64 `json:"output_tokens"`       // of the answer, including reasoning
	// Estimated: the provider reported nothing, and [Estimate] computed these.
	Estimated bool `json:"estimated,omitempty"`
}

// Error is the reason why there is no answer.
type Error struct {
	Status     int           // HTTP status; zero: no response, or an incomplete one
	Retryable  bool          // the same request may succeed later: 408, 409, 429, 5xx, a broken connection
	RetryAfter time.Duration // by the provider; zero: not given
	// TooLong: the conversation is too long for the model.
	TooLong bool
	Message string // in plain words, bounded, without secrets; may contain the provider's text
	Err     error  // the cause, for the log
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return "model: " + e.Message
	}
	return fmt.Sprintf("model: HTTP %d: %s", e.Status, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// TextPart returns a part with a text.
func TextPart(text string) Part { return Part{Text: &Text{Text: text}} }

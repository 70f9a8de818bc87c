// Package model owns the seam to language models: what a model is asked and what it answers, in terms that every
// provider has. It knows no conversation, calls no tool and stores nothing; packages below it speak the
// providers' own wire formats.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Provider asks models. Implementations are safe for concurrent use.
type Provider interface {
	// Generate asks once and returns the whole answer. What it does before that is told to sink, in order and from one goroutine; a
	// nil sink hears nothing. Errors are *Error. A stream that breaks off is an error, however much of it
	// came: an answer is whole or none.
	Generate(ctx context.Context, request *Request, sink func(Delta)) (*Response, error)
}

// Request is one request to a model: all of a conversation so far, since models remember nothing.
type Request struct {
	Model        string // as its provider knows it
	Instructions string // the system prompt; empty: none
	Messages     []Message
	Tools        []Tool
	MaxTokens    int // bounds the answer; zero: the provider's default
}

// Role is who speaks in a message.
type Role string

// The roles of messages. Results of tools are in messages of the user, as a [ToolResult] each: every
// [ToolCall] of an assistant's message is answered by one in the message that follows it.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of speech.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is one piece of a message: exactly one of its members is set.
type Part struct {
	Text   *Text       `json:"text,omitempty"`
	Image  *Image      `json:"image,omitempty"`
	Call   *ToolCall   `json:"call,omitempty"`
	Result *ToolResult `json:"result,omitempty"`
	// Opaque is something that the provider wants back as it was, such as signed reasoning. It is for the
	// provider that made it only; others leave it out.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Text is what is said.
type Text struct {
	Text string `json:"text"`
}

// Image is a picture, for models that can see.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}

// ToolCall is the model's wish to have a tool called.
type ToolCall struct {
	ID        string `json:"id"`        // by which its result is known; the provider's own, never empty
	Name      string `json:"name"`      // as the model wrote it: it may be none that it was offered
	Arguments string `json:"arguments"` // as the model wrote them: they may be no JSON. Empty: none were given
}

// ToolResult is what became of a tool call, in words and pictures for the model.
type ToolResult struct {
	CallID  string `json:"call_id"` // a [ToolCall]'s
	IsError bool   `json:"is_error,omitempty"`
	Parts   []Part `json:"parts"` // texts and images
}

// Opaque is kept and given back byte for byte.
type Opaque struct {
	Provider string          `json:"provider"`
	Value    json.RawMessage `json:"value"`
}

// Tool is one that the model may call.
type Tool struct {
	Name        string          // at most 64 characters of [A-Za-z0-9_-]
	Description string          //
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// Delta is a piece of an answer under way.
type Delta struct {
	Text string // that is added to the answer's text
	// Restart: the answer broke off and is asked for again. The text so far is void; what follows begins anew.
	Restart bool
}

// Response is a whole answer.
type Response struct {
	Parts []Part // of an assistant's message: texts, calls, opaque pieces, in the model's order
	Stop  StopReason
	Usage Usage
	Model string // that answered, which may be another than was asked
	ID    string // the provider's id of the answer; empty: it has none
}

// StopReason is why an answer ended.
type StopReason string

// The reasons why answers end.
const (
	StopEnd       StopReason = "end"        // the model said all that it wanted
	StopToolCalls StopReason = "tool_calls" // it wants tools called
	StopMaxTokens StopReason = "max_tokens" // it had more to say; a call that was cut is left out
	StopRefusal   StopReason = "refusal"    // the model, or its provider's filter, will not answer
)

// Usage counts tokens, as the provider does.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`        // all of the request, those from a cache too
	CachedInputTokens int64 `json:"cached_input_tokens"` // of these, those that were read from a cache
	OutputTokens      int64 `json:"output_tokens"`       // all of the answer, reasoning too
	// Estimated: the provider said nothing, and these are of [Estimate].
	Estimated bool `json:"estimated,omitempty"`
}

// Error is why there is no answer.
type Error struct {
	Status     int           // HTTP's; zero: there was no answer to the request, or it broke off
	Retryable  bool          // the same request may succeed later: 408, 409, 429, 5xx, a broken connection
	RetryAfter time.Duration // that the provider asked for; zero: it did not say
	// TooLong: the conversation is longer than the model can take.
	TooLong bool
	Message string // in plain words, bounded, nothing secret in it; parts of it may come from the provider
	Err     error  // the cause, for the log
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return "model: " + e.Message
	}
	return fmt.Sprintf("model: HTTP %d: %s", e.Status, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// TextPart is a text as a part.
func TextPart(text string) Part { return Part{Text: &Text{Text: text}} }

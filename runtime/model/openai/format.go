package openai

import (
	"encoding/json"
	"strings"
)

// The request, as far as it is used here (https://platform.openai.com/docs/api-reference/chat/create).
type (
	requestBody struct {
		Model               string         `json:"model"`
		Messages            []message      `json:"messages"`
		Tools               []toolOffer    `json:"tools,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	message struct {
		Role       string     `json:"role"`
		Content    any        `json:"content,omitempty"` // a string or []contentPart; nil: none
		ToolCalls  []toolCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	contentPart struct {
		Type     string    `json:"type"`
		Text     string    `json:"text,omitempty"`
		ImageURL *imageURL `json:"image_url,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
	toolOffer struct {
		Type     string      `json:"type"`
		Function functionDef `json:"function"`
	}
	functionDef struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Parameters  map[string]any `json:"parameters"`
	}
	toolCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function functionCall `json:"function"`
	}
	functionCall struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

// The response: a chunk of a stream, or the whole. Members of another type than OpenAI's count as missing.
type (
	chunk struct {
		ID      looseText    `json:"id"`
		Model   looseText    `json:"model"`
		Choices []choice     `json:"choices"`
		Usage   loose[usage] `json:"usage"`
	}
	choice struct {
		Index        loose[json.Number] `json:"index"`
		Delta        loose[delta]       `json:"delta"`
		Message      loose[delta]       `json:"message"` // in place of Delta, of a whole response
		FinishReason looseText          `json:"finish_reason"`
	}
	delta struct {
		Content   json.RawMessage        `json:"content"` // a string or []contentPart
		Refusal   looseText              `json:"refusal"`
		ToolCalls loose[[]toolCallDelta] `json:"tool_calls"`
	}
	toolCallDelta struct {
		Index    loose[json.Number]   `json:"index"`
		ID       looseText            `json:"id"`
		Function loose[functionDelta] `json:"function"`
	}
	functionDelta struct {
		Name      looseText `json:"name"`
		Arguments looseText `json:"arguments"` // an object, from some servers
	}
	usage struct {
		PromptTokens        loose[json.Number] `json:"prompt_tokens"`
		CompletionTokens    loose[json.Number] `json:"completion_tokens"`
		PromptTokensDetails loose[struct {
			CachedTokens loose[json.Number] `json:"cached_tokens"`
		}] `json:"prompt_tokens_details"`
	}
)

// loose is a value that is the zero value if it is missing, null, or of another type than T.
type loose[T any] struct {
	value T
	valid bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose[T]) UnmarshalJSON(data []byte) error {
	var value T
	if string(data) != "null" && json.Unmarshal(data, &value) == nil {
		l.value, l.valid = value, true
	}
	return nil
}

// number returns n, without its fraction, or 0.
func number(n json.Number) int64 {
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return int64(f)
}

// looseText is a string, or the JSON text of another value. It is empty if the value is missing or null.
type looseText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *looseText) UnmarshalJSON(data []byte) error {
	var text string
	switch {
	case json.Unmarshal(data, &text) == nil:
		*t = looseText(text) // null is ""
	default:
		*t = looseText(strings.TrimSpace(string(data)))
	}
	return nil
}

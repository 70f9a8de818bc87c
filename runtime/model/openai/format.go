package openai

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/model/wire"
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
		ID      wire.LooseText    `json:"id"`
		Model   wire.LooseText    `json:"model"`
		Choices []choice          `json:"choices"`
		Error   wire.Loose[any]   `json:"error"`
		Usage   wire.Loose[usage] `json:"usage"`
	}
	choice struct {
		Index        wire.Loose[json.Number] `json:"index"`
		Delta        wire.Loose[delta]       `json:"delta"`
		Message      wire.Loose[delta]       `json:"message"` // in place of Delta, of a whole response
		FinishReason wire.LooseText          `json:"finish_reason"`
	}
	delta struct {
		Content   json.RawMessage             `json:"content"` // a string or []contentPart
		Refusal   wire.LooseText              `json:"refusal"`
		ToolCalls wire.Loose[[]toolCallDelta] `json:"tool_calls"`
	}
	toolCallDelta struct {
		Index    wire.Loose[json.Number]   `json:"index"`
		ID       wire.LooseText            `json:"id"`
		Function wire.Loose[functionDelta] `json:"function"`
	}
	functionDelta struct {
		Name      wire.LooseText `json:"name"`
		Arguments wire.LooseText `json:"arguments"` // an object, from some servers
	}
	usage struct {
		PromptTokens        wire.Loose[json.Number] `json:"prompt_tokens"`
		CompletionTokens    wire.Loose[json.Number] `json:"completion_tokens"`
		PromptTokensDetails wire.Loose[struct {
			CachedTokens wire.Loose[json.Number] `json:"cached_tokens"`
		}] `json:"prompt_tokens_details"`
	}
)

package anthropic

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// The request, as far as it is used here (https://docs.anthropic.com/en/api/messages).
type (
	requestBody struct {
		MaxTokens int       `json:"max_tokens"`
		Messages  []message `json:"messages,omitempty"`
		Model     string    `json:"model"`
		System    []*block  `json:"system,omitempty"`
		Tools     []tool    `json:"tools,omitempty"`
		Stream    bool      `json:"stream"`
	}
	message struct {
		Content []any  `json:"content"` // *block, or the JSON of a block that the model wrote
		Role    string `json:"role"`
	}
	block struct { // a text, an image, a tool call or its result
		Text         string          `json:"text,omitempty"`
		ID           string          `json:"id,omitempty"`
		ToolUseID    string          `json:"tool_use_id,omitempty"`
		IsError      bool            `json:"is_error,omitempty"`
		Input        json.RawMessage `json:"input,omitempty"`
		Name         string          `json:"name,omitempty"`
		Source       *imageSource    `json:"source,omitempty"`
		CacheControl *cacheControl   `json:"cache_control,omitempty"`
		Content      []any           `json:"content,omitempty"` // *block
		Type         string          `json:"type"`
	}
	imageSource struct {
		Data      []byte `json:"data"` // base64
		MediaType string `json:"media_type"`
		Type      string `json:"type"`
	}
	cacheControl struct {
		Type string `json:"type"`
	}
	tool struct {
		InputSchema  map[string]any `json:"input_schema"`
		Name         string         `json:"name"`
		Description  string         `json:"description,omitempty"`
		CacheControl *cacheControl  `json:"cache_control,omitempty"`
	}
)

// The response: an event of a stream, or the whole. Members of another type than Anthropic's count as missing.
type (
	event struct {
		Type         wire.LooseText          `json:"type"`
		Message      wire.Loose[reply]       `json:"message"`
		Index        wire.Loose[json.Number] `json:"index"`
		ContentBlock wire.Loose[object]      `json:"content_block"`
		Delta        wire.Loose[object]      `json:"delta"`
		Usage        wire.Loose[usage]       `json:"usage"`
	}
	reply struct {
		Type       wire.LooseText                   `json:"type"`
		ID         wire.LooseText                   `json:"id"`
		Model      wire.LooseText                   `json:"model"`
		Content    wire.Loose[[]wire.Loose[object]] `json:"content"`
		StopReason wire.LooseText                   `json:"stop_reason"`
		Usage      wire.Loose[usage]                `json:"usage"`
	}
	usage struct {
		InputTokens              wire.Loose[json.Number] `json:"input_tokens"`
		CacheCreationInputTokens wire.Loose[json.Number] `json:"cache_creation_input_tokens"`
		CacheReadInputTokens     wire.Loose[json.Number] `json:"cache_read_input_tokens"`
		OutputTokens             wire.Loose[json.Number] `json:"output_tokens"`
	}
	object map[string]json.RawMessage
)

package anthropic

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// newParams returns a request in the wire format. The parts that every turn repeats (tools, instructions, the conversation so far) are marked to
// be cached.
func newParams(request *model.Request) anthropic.MessageNewParams {
	params := anthropic.MessageNewParams{Model: request.Model, MaxTokens: DefaultMaxTokens, Messages: newMessages(request.Messages)}
	if request.MaxTokens > 0 {
		params.MaxTokens = int64(request.MaxTokens)
	}
	for i := range request.Tools {
		params.Tools = append(params.Tools, anthropic.ToolUnionParam{OfTool: newTool(&request.Tools[i])})
	}
	if isBlank(request.Instructions) {
		if n := len(params.Tools); n > 0 {
			params.Tools[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
		}
	} else {
		params.System = []anthropic.TextBlockParam{{Text: request.Instructions, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	if n := len(params.Messages); n > 0 {
		markCached(params.Messages[n-1].Content)
	}
	return params
}

// markCached marks the last block that can be marked: the cache then holds all blocks up to it.
func markCached(blocks []anthropic.ContentBlockParamUnion) {
	for _, block := range slices.Backward(blocks) {
		if mark := block.GetCacheControl(); mark != nil {
			*mark = anthropic.NewCacheControlEphemeralParam()
			return
		}
	}
}

func newTool(t *model.Tool) *anthropic.ToolParam {
	schema, description := wire.Schema(t)
	sent := &anthropic.ToolParam{Name: t.Name}
	if description != "" {
		sent.Description = anthropic.String(description)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		text = []byte(`{"type":"object","properties":{}}`)
	}
	sent.InputSchema = param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(text))
	return sent
}

// newMessages merges messages of one role that follow each other: the roles must alternate.
func newMessages(conversation []model.Message) []anthropic.MessageParam {
	var sent []anthropic.MessageParam
	for i := range conversation {
		role, blocks := anthropic.MessageParamRoleUser, userBlocks
		if conversation[i].Role == model.Assistant {
			role, blocks = anthropic.MessageParamRoleAssistant, assistantBlocks
		}
		content := blocks(conversation[i].Parts)
		if len(content) == 0 {
			continue
		}
		if n := len(sent); n > 0 && sent[n-1].Role == role {
			sent[n-1].Content = append(sent[n-1].Content, content...)
		} else {
			sent = append(sent, anthropic.MessageParam{Role: role, Content: content})
		}
	}
	return sent
}

func assistantBlocks(parts []model.Part) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	for _, part := range parts {
		switch {
		case part.Text != nil && !isBlank(part.Text.Text):
			blocks = append(blocks, anthropic.NewTextBlock(part.Text.Text))
		case part.Call != nil:
			blocks = append(blocks, anthropic.NewToolUseBlock(acceptedCallID(part.Call.ID), wire.Arguments(part.Call.Arguments), wire.Name(part.Call.Name)))
		case part.Opaque != nil && part.Opaque.Provider == name:
			blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](part.Opaque.Value))
		}
	}
	return blocks
}

// userBlocks returns the results of calls, and then the texts and images of the person.
func userBlocks(parts []model.Part) []anthropic.ContentBlockParamUnion {
	var results, said []anthropic.ContentBlockParamUnion
	for _, part := range parts {
		switch {
		case part.Result != nil:
			results = append(results, newResult(part.Result))
		case part.Text != nil && !isBlank(part.Text.Text):
			said = append(said, anthropic.NewTextBlock(part.Text.Text))
		case part.Image != nil:
			said = append(said, newImage(part.Image))
		}
	}
	if len(results)+len(said) == 0 {
		said = append(said, anthropic.NewTextBlock("(nothing was said)"))
	}
	return append(results, said...)
}

func newResult(r *model.ToolResult) anthropic.ContentBlockParamUnion {
	sent := &anthropic.ToolResultBlockParam{ToolUseID: acceptedCallID(r.CallID)}
	if r.IsError {
		sent.IsError = anthropic.Bool(true)
	}
	for _, part := range r.Parts {
		switch {
		case part.Text != nil && !isBlank(part.Text.Text):
			sent.Content = append(sent.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: part.Text.Text}})
		case part.Image != nil:
			sent.Content = append(sent.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: newImage(part.Image).OfImage})
		}
	}
	if len(sent.Content) == 0 {
		sent.Content = append(sent.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: "(no content)"}})
	}
	return anthropic.ContentBlockParamUnion{OfToolResult: sent}
}

func newImage(i *model.Image) anthropic.ContentBlockParamUnion {
	return anthropic.NewImageBlockBase64(i.MediaType, base64.StdEncoding.EncodeToString(i.Data))
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

var callIDForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// acceptedCallID returns the id of a call in a form that this provider accepts. Another provider may have made it.
func acceptedCallID(id string) string {
	if callIDForm.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "toolu_" + hex.EncodeToString(sum[:12])
}

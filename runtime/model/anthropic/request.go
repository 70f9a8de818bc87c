package anthropic

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// newRequestBody returns a request in the wire format. The parts that every turn repeats (tools, instructions, the conversation so far) are
// marked to be cached.
func newRequestBody(request *model.Request) requestBody {
	body := requestBody{Model: request.Model, MaxTokens: cmp.Or(max(request.MaxTokens, 0), DefaultMaxTokens), Messages: newMessages(request.Messages), Stream: true}
	for i := range request.Tools {
		schema, description := wire.Schema(&request.Tools[i])
		body.Tools = append(body.Tools, tool{Name: request.Tools[i].Name, Description: description, InputSchema: schema})
	}
	if !isBlank(request.Instructions) {
		body.System = []*block{{Type: "text", Text: request.Instructions, CacheControl: newCacheControl()}}
	} else if n := len(body.Tools); n > 0 {
		body.Tools[n-1].CacheControl = newCacheControl()
	}
	if n := len(body.Messages); n > 0 {
		markCached(body.Messages[n-1].Content)
	}
	return body
}

// markCached marks the last block that can be marked: the cache then holds all blocks up to it.
func markCached(blocks []any) {
	for _, last := range slices.Backward(blocks) {
		if b, ok := last.(*block); ok {
			b.CacheControl = newCacheControl()
			return
		}
	}
}

func newCacheControl() *cacheControl { return &cacheControl{Type: "ephemeral"} }

// newMessages merges messages of one role that follow each other: the roles must alternate.
func newMessages(conversation []model.Message) []message {
	var sent []message
	for i := range conversation {
		role, convert := "user", userBlocks
		if conversation[i].Role == model.Assistant {
			role, convert = "assistant", assistantBlocks
		}
		content := convert(conversation[i].Parts)
		if len(content) == 0 {
			continue
		}
		if n := len(sent); n > 0 && sent[n-1].Role == role {
			sent[n-1].Content = append(sent[n-1].Content, content...)
		} else {
			sent = append(sent, message{Role: role, Content: content})
		}
	}
	return sent
}

func assistantBlocks(parts []model.Part) []any {
	var blocks []any
	for _, part := range parts {
		switch {
		case part.Call != nil:
			blocks = append(blocks, &block{
				Type: "tool_use", ID: acceptedCallID(part.Call.ID), Name: wire.Name(part.Call.Name), Input: wire.Arguments(part.Call.Arguments),
			})
		case part.Opaque != nil && part.Opaque.Provider == name:
			blocks = append(blocks, part.Opaque.Value)
		case part.Text != nil && !isBlank(part.Text.Text):
			blocks = append(blocks, textBlock(part.Text.Text))
		}
	}
	return blocks
}

// userBlocks returns the results of calls, and then the texts and images of the person.
func userBlocks(parts []model.Part) []any {
	var blocks []any
	for _, part := range parts {
		if r := part.Result; r != nil {
			content := contentBlocks(r.Parts)
			if len(content) == 0 {
				content = []any{textBlock("(no content)")}
			}
			blocks = append(blocks, &block{Type: "tool_result", ToolUseID: acceptedCallID(r.CallID), IsError: r.IsError, Content: content})
		}
	}
	blocks = append(blocks, contentBlocks(parts)...)
	if len(blocks) == 0 {
		blocks = []any{textBlock("(nothing was said)")}
	}
	return blocks
}

// contentBlocks returns the texts and images among parts.
func contentBlocks(parts []model.Part) []any {
	var blocks []any
	for _, part := range parts {
		switch {
		case part.Text != nil && !isBlank(part.Text.Text):
			blocks = append(blocks, textBlock(part.Text.Text))
		case part.Image != nil:
			blocks = append(blocks, &block{Type: "image", Source: &imageSource{Type: "base64", MediaType: part.Image.MediaType, Data: part.Image.Data}})
		}
	}
	return blocks
}

func textBlock(text string) *block { return &block{Type: "text", Text: text} }

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

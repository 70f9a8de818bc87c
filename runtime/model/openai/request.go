package openai

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// newRequestBody returns a request in the wire format.
func (p *Provider) newRequestBody(request *model.Request, d dialect) requestBody {
	body := requestBody{Model: request.Model, Stream: true}
	if request.Instructions != "" {
		body.Messages = append(body.Messages, message{Role: "system", Content: request.Instructions})
	}
	names := map[string]string{} // of tools, by the ids of their calls
	for i := range request.Messages {
		convert := userMessages
		if request.Messages[i].Role == model.Assistant {
			convert = assistantMessages
		}
		body.Messages = append(body.Messages, convert(&request.Messages[i], names)...)
	}
	for i := range request.Tools {
		schema, description := wire.Schema(&request.Tools[i])
		body.Tools = append(body.Tools, toolOffer{
			Type: "function", Function: functionDef{Name: request.Tools[i].Name, Description: description, Parameters: schema},
		})
	}
	if !d.noUsage {
		body.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if request.MaxTokens > 0 {
		if p.own != d.otherMaxTokens {
			body.MaxCompletionTokens = request.MaxTokens
		} else {
			body.MaxTokens = request.MaxTokens
		}
	}
	return body
}

// assistantMessages returns the model's message, or none if no part of it can be expressed in this format.
func assistantMessages(m *model.Message, names map[string]string) []message {
	var texts []string
	sent := message{Role: "assistant"}
	for _, part := range m.Parts {
		switch {
		case part.Text != nil && part.Text.Text != "":
			texts = append(texts, part.Text.Text)
		case part.Call != nil:
			names[part.Call.ID] = wire.Name(part.Call.Name)
			sent.ToolCalls = append(sent.ToolCalls, toolCall{
				ID: part.Call.ID, Type: "function",
				Function: functionCall{Name: wire.Name(part.Call.Name), Arguments: string(wire.Arguments(part.Call.Arguments))},
			})
		}
	}
	if len(texts) > 0 {
		sent.Content = strings.Join(texts, "\n")
	} else if len(sent.ToolCalls) == 0 {
		return nil
	}
	return []message{sent}
}

// userMessages returns one message for each tool result, then one with the user's texts and images. Messages of tools take
// no images: those come first in the last message, and a line before them names the call that returned them.
func userMessages(m *model.Message, names map[string]string) []message {
	var sent []message
	var fromTools, fromUser []contentPart
	for _, part := range m.Parts {
		switch {
		case part.Result != nil:
			text, images := splitResult(part.Result)
			sent = append(sent, message{Role: "tool", Content: text, ToolCallID: part.Result.CallID})
			if len(images) > 0 {
				heading := "Images that tool call " + part.Result.CallID
				if name := names[part.Result.CallID]; name != "" {
					heading += " (" + name + ")"
				}
				fromTools = append(fromTools, textPart(heading+" returned:"))
				fromTools = append(fromTools, images...)
			}
		case part.Text != nil && part.Text.Text != "":
			fromUser = append(fromUser, textPart(part.Text.Text))
		case part.Image != nil:
			fromUser = append(fromUser, imagePart(part.Image))
		}
	}
	parts := slices.Concat(fromTools, fromUser)
	switch {
	case len(parts) == 1 && parts[0].ImageURL == nil:
		sent = append(sent, message{Role: "user", Content: parts[0].Text}) // servers of models without vision may take only strings
	case len(parts) > 0:
		sent = append(sent, message{Role: "user", Content: parts})
	case len(sent) == 0:
		sent = append(sent, message{Role: "user", Content: "(nothing was said)"})
	}
	return sent
}

// splitResult returns the texts and images of a tool's result. The format has no mark for errors, so the text says it.
func splitResult(r *model.ToolResult) (text string, images []contentPart) {
	var texts []string
	for _, part := range r.Parts {
		switch {
		case part.Text != nil && part.Text.Text != "":
			texts = append(texts, part.Text.Text)
		case part.Image != nil:
			images = append(images, imagePart(part.Image))
		}
	}
	text = strings.Join(texts, "\n")
	if text == "" && len(images) > 0 {
		text = "The result is images, which follow."
	}
	if text == "" {
		text = "(no content)"
	}
	if r.IsError {
		text = "Error: " + text
	}
	return text, images
}

func textPart(text string) contentPart { return contentPart{Type: "text", Text: text} }

func imagePart(i *model.Image) contentPart {
	return contentPart{
		Type:     "image_url",
		ImageURL: &imageURL{URL: "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)},
	}
}

package openai

import (
	"encoding/base64"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// params is a request in the wire format.
func (p *Provider) params(request *model.Request, d dialect) openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{Model: request.Model}
	if request.Instructions != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(request.Instructions))
	}
	names := map[string]string{} // of tools, by the ids of their calls
	for i := range request.Messages {
		params.Messages = append(params.Messages, messages(&request.Messages[i], names)...)
	}
	for i := range request.Tools {
		schema, description := wire.Schema(&request.Tools[i])
		function := shared.FunctionDefinitionParam{Name: request.Tools[i].Name, Parameters: schema}
		if description != "" {
			function.Description = openai.String(description)
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	if !d.noUsage {
		params.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if request.MaxTokens > 0 {
		if p.own != d.otherMaxTokens {
			params.MaxCompletionTokens = openai.Int(int64(request.MaxTokens))
		} else {
			params.MaxTokens = openai.Int(int64(request.MaxTokens))
		}
	}
	return params
}

func messages(message *model.Message, names map[string]string) []openai.ChatCompletionMessageParamUnion {
	if message.Role == model.Assistant {
		return assistantMessage(message, names)
	}
	return userMessages(message, names)
}

// assistantMessage is what the model said; one in which it said nothing that this format knows is none.
func assistantMessage(message *model.Message, names map[string]string) []openai.ChatCompletionMessageParamUnion {
	var said []string
	sent := &openai.ChatCompletionAssistantMessageParam{}
	for _, part := range message.Parts {
		switch {
		case part.Text != nil && part.Text.Text != "":
			said = append(said, part.Text.Text)
		case part.Call != nil:
			names[part.Call.ID] = wire.Name(part.Call.Name)
			sent.ToolCalls = append(sent.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: part.Call.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: wire.Name(part.Call.Name), Arguments: string(wire.Arguments(part.Call.Arguments)),
					},
				},
			})
		}
	}
	if len(said) > 0 {
		sent.Content.OfString = openai.String(strings.Join(said, "\n"))
	} else if len(sent.ToolCalls) == 0 {
		return nil
	}
	return []openai.ChatCompletionMessageParamUnion{{OfAssistant: sent}}
}

// userMessages are the results of tools, a message each, and what was said with them. Messages of tools take no images: those come
// after the last of them, each with a line that says whose it is.
func userMessages(message *model.Message, names map[string]string) []openai.ChatCompletionMessageParamUnion {
	var sent []openai.ChatCompletionMessageParamUnion
	var after, said []openai.ChatCompletionContentPartUnionParam
	for _, part := range message.Parts {
		switch {
		case part.Result != nil:
			text, images := result(part.Result)
			sent = append(sent, openai.ToolMessage(text, part.Result.CallID))
			if len(images) > 0 {
				after = append(after, openai.TextContentPart(imagesOf(part.Result.CallID, names)))
				after = append(after, images...)
			}
		case part.Text != nil && part.Text.Text != "":
			said = append(said, openai.TextContentPart(part.Text.Text))
		case part.Image != nil:
			said = append(said, image(part.Image))
		}
	}
	said = append(after, said...)
	switch {
	case len(said) == 1 && said[0].OfText != nil:
		sent = append(sent, openai.UserMessage(said[0].OfText.Text)) // servers of models that cannot see may take nothing else
	case len(said) > 0:
		sent = append(sent, openai.UserMessage(said))
	case len(sent) == 0:
		sent = append(sent, openai.UserMessage("(nothing was said)"))
	}
	return sent
}

func imagesOf(callID string, names map[string]string) string {
	if name := names[callID]; name != "" {
		return "Images that tool call " + callID + " (" + name + ") returned:"
	}
	return "Images that tool call " + callID + " returned:"
}

// result is what became of a call. The format has no mark for errors.
func result(r *model.ToolResult) (text string, images []openai.ChatCompletionContentPartUnionParam) {
	var said []string
	for _, part := range r.Parts {
		switch {
		case part.Text != nil && part.Text.Text != "":
			said = append(said, part.Text.Text)
		case part.Image != nil:
			images = append(images, image(part.Image))
		}
	}
	text = strings.Join(said, "\n")
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

func image(i *model.Image) openai.ChatCompletionContentPartUnionParam {
	return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
		URL: "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data),
	})
}

package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// name marks opaque parts of this provider.
const name = "anthropic"

// answer collects the events of a response.
type answer struct {
	sink     func(model.Delta)
	ids      wire.IDs
	maxCalls int

	message anthropic.Message
	inputs  map[int64]*strings.Builder // of calls, as the model wrote them
	calls   int
	ended   bool
}

func newAnswer(request *model.Request, maxCalls int, sink func(model.Delta)) *answer {
	return &answer{sink: sink, ids: wire.IDsOf(request), maxCalls: maxCalls, inputs: map[int64]*strings.Builder{}, message: anthropic.Message{Model: request.Model}}
}

// addEvent adds an event of a stream.
func (a *answer) addEvent(event *anthropic.MessageStreamEventUnion) error {
	if err := a.message.Accumulate(*event); err != nil {
		return wire.Garbled(err.Error(), "")
	}
	switch event.Type {
	case "content_block_start":
		switch event.ContentBlock.Type {
		case "text":
			a.addText(event.ContentBlock.Text)
		case "tool_use":
			return a.countCall()
		}
	case "content_block_delta":
		switch event.Delta.Type {
		case "text_delta":
			a.addText(event.Delta.Text)
		case "input_json_delta":
			input := a.inputs[event.Index]
			if input == nil {
				input = &strings.Builder{}
				a.inputs[event.Index] = input
			}
			input.WriteString(event.Delta.PartialJSON)
		}
	case "message_stop":
		a.ended = true
	}
	return nil
}

// addWhole adds an answer that came at once.
func (a *answer) addWhole() error {
	for i := range a.message.Content {
		switch block := &a.message.Content[i]; block.Type {
		case "text":
			a.addText(block.Text)
		case "tool_use":
			if err := a.countCall(); err != nil {
				return err
			}
		}
	}
	a.ended = true
	return nil
}

func (a *answer) countCall() error {
	if a.calls++; a.calls > a.maxCalls {
		return wire.TooManyCalls(a.maxCalls)
	}
	return nil
}

func (a *answer) addText(text string) {
	if text = wire.Text(text); text != "" && a.sink != nil {
		a.sink(model.Delta{Text: text})
	}
}

// buildResponse returns the complete answer.
func (a *answer) buildResponse() *model.Response {
	m := &a.message
	usage := m.Usage
	r := &model.Response{Model: m.Model, ID: wire.Text(m.ID), Stop: a.stopReason(), Usage: wire.Usage(
		usage.InputTokens+usage.CacheCreationInputTokens+usage.CacheReadInputTokens, usage.CacheReadInputTokens, usage.OutputTokens)}
	for i := range m.Content {
		block := &m.Content[i]
		switch block.Type {
		case "text":
			if text := wire.Text(block.Text); text != "" {
				r.Parts = append(r.Parts, model.TextPart(text))
			}
		case "tool_use":
			arguments := a.callArguments(i)
			if r.Stop == model.StopMaxTokens && i == len(m.Content)-1 && (!wire.Whole(arguments) || arguments == "") {
				continue
			}
			r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{ID: a.ids.Take(block.ID), Name: wire.Text(block.Name), Arguments: arguments}})
		case "thinking", "redacted_thinking":
			r.Parts = append(r.Parts, model.Part{Opaque: &model.Opaque{Provider: name, Value: json.RawMessage(block.RawJSON())}})
		}
	}
	return r
}

// callArguments returns the arguments of the call in a block, as the model wrote them. A call without arguments has none, or {} if the answer
// came at once.
func (a *answer) callArguments(block int) string {
	if input := a.inputs[int64(block)]; input != nil && input.Len() > 0 {
		return wire.Text(input.String())
	}
	if input := string(a.message.Content[block].Input); input != "{}" {
		return wire.Text(input)
	}
	return ""
}

func (a *answer) stopReason() model.StopReason {
	switch a.message.StopReason {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return model.StopMaxTokens
	case anthropic.StopReasonRefusal:
		return model.StopRefusal
	default: // any other reason
		if a.calls > 0 {
			return model.StopToolCalls
		}
		return model.StopEnd
	}
}

package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// name is what opaque parts of this provider's are known by.
const name = "anthropic"

// answer is what has come of one.
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

// finished reports whether the model came to its stop.
func (a *answer) finished() bool { return a.ended || a.message.StopReason != "" }

// add takes an event of a stream.
func (a *answer) add(event *anthropic.MessageStreamEventUnion) error {
	if err := a.message.Accumulate(*event); err != nil {
		return wire.Garbled(err.Error(), "")
	}
	switch event.Type {
	case "content_block_start":
		switch event.ContentBlock.Type {
		case "text":
			a.say(event.ContentBlock.Text)
		case "tool_use":
			return a.countCall()
		}
	case "content_block_delta":
		switch event.Delta.Type {
		case "text_delta":
			a.say(event.Delta.Text)
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

// whole takes an answer that came at once.
func (a *answer) whole() error {
	for i := range a.message.Content {
		switch block := &a.message.Content[i]; block.Type {
		case "text":
			a.say(block.Text)
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

func (a *answer) say(text string) {
	if text = wire.Text(text); text != "" && a.sink != nil {
		a.sink(model.Delta{Text: text})
	}
}

// response is the answer, which is whole.
func (a *answer) response() *model.Response {
	m := &a.message
	usage := m.Usage
	r := &model.Response{Model: m.Model, ID: wire.Text(m.ID), Stop: a.stop(), Usage: wire.Usage(
		usage.InputTokens+usage.CacheCreationInputTokens+usage.CacheReadInputTokens, usage.CacheReadInputTokens, usage.OutputTokens)}
	for i := range m.Content {
		block := &m.Content[i]
		switch block.Type {
		case "text":
			if text := wire.Text(block.Text); text != "" {
				r.Parts = append(r.Parts, model.TextPart(text))
			}
		case "tool_use":
			arguments := a.arguments(i)
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

// arguments are those of the call in a block, as the model wrote them. A call without any has none, or {} where it came at once.
func (a *answer) arguments(block int) string {
	if input := a.inputs[int64(block)]; input != nil && input.Len() > 0 {
		return wire.Text(input.String())
	}
	if input := string(a.message.Content[block].Input); input != "{}" {
		return wire.Text(input)
	}
	return ""
}

func (a *answer) stop() model.StopReason {
	switch a.message.StopReason {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return model.StopMaxTokens
	case anthropic.StopReasonRefusal:
		return model.StopRefusal
	default: // whatever else it says
		if a.calls > 0 {
			return model.StopToolCalls
		}
		return model.StopEnd
	}
}

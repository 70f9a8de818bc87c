package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

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

	reply  reply
	blocks []*growingBlock
	calls  int
	ended  bool
}

// growingBlock is a content block as it started, and the text that deltas add.
type growingBlock struct {
	start object
	added map[string][]byte // to members of start
	input []byte            // of a call
}

func newAnswer(request *model.Request, maxCalls int, sink func(model.Delta)) *answer {
	return &answer{sink: sink, ids: wire.IDsOf(request), maxCalls: maxCalls, reply: reply{Model: wire.LooseText(request.Model)}}
}

// ReadEvent implements [wire.Answer].
func (a *answer) ReadEvent(data []byte) (last bool, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return false, nil
	}
	var said wire.Loose[event]
	if err := json.Unmarshal(data, &said); err != nil {
		return false, wire.InvalidAnswer(err.Error())
	}
	e := &said.Value
	index := wire.Number(e.Index.Value)
	switch e.Type {
	case "error":
		return false, wire.ReadComplaint(data, "").NewError()
	case "message_start":
		return false, a.startReply(&e.Message.Value)
	case "content_block_start":
		if index != int64(len(a.blocks)) {
			return false, wire.InvalidAnswer(fmt.Sprintf("content block %d comes after %d blocks", index, len(a.blocks)))
		}
		return false, a.startBlock(e.ContentBlock.Value)
	case "content_block_delta", "content_block_stop":
		if index < 0 || index >= int64(len(a.blocks)) {
			return false, wire.InvalidAnswer(fmt.Sprintf("content block %d has not started", index))
		}
		a.addDelta(a.blocks[index], e.Delta.Value)
	case "message_delta":
		a.endReply(e)
	case "message_stop":
		a.ended = true
	}
	return a.ended, nil
}

// ReadWhole implements [wire.Answer].
func (a *answer) ReadWhole(document []byte) error {
	var said wire.Loose[reply]
	if err := json.Unmarshal(document, &said); err != nil {
		return wire.InvalidAnswer(err.Error())
	}
	switch said.Value.Type {
	case "error":
		return wire.ReadComplaint(document, "").NewError()
	case "message":
		return a.startReply(&said.Value)
	}
	return wire.InvalidAnswer("it is not a message")
}

// IsComplete implements [wire.Answer].
func (a *answer) IsComplete() bool { return a.ended || a.reply.StopReason != "" }

func (a *answer) startReply(r *reply) error {
	r.Model = cmp.Or(r.Model, a.reply.Model)
	a.reply, a.blocks = *r, nil
	for _, start := range r.Content.Value {
		if err := a.startBlock(start.Value); err != nil {
			return err
		}
	}
	return nil
}

// endReply takes the stop reason and the total usage. Totals that are left out are those of the start.
func (a *answer) endReply(e *event) {
	before, total := &a.reply.Usage.Value, &e.Usage.Value
	total.InputTokens = cmp.Or(total.InputTokens, before.InputTokens)
	total.CacheCreationInputTokens = cmp.Or(total.CacheCreationInputTokens, before.CacheCreationInputTokens)
	total.CacheReadInputTokens = cmp.Or(total.CacheReadInputTokens, before.CacheReadInputTokens)
	a.reply.Usage, a.reply.StopReason = e.Usage, wire.LooseText(wire.TextOf(e.Delta.Value["stop_reason"]))
}

func (a *answer) startBlock(start object) error {
	b := &growingBlock{start: start, added: map[string][]byte{}}
	a.blocks = append(a.blocks, b)
	switch b.text("type") {
	case "text":
		a.sendText(b.text("text"))
	case "tool_use":
		if a.calls++; a.calls > a.maxCalls {
			return wire.TooManyCalls(a.maxCalls)
		}
	}
	return nil
}

func (a *answer) addDelta(b *growingBlock, delta object) {
	switch kind := wire.TextOf(delta["type"]); kind {
	case "text_delta", "thinking_delta", "signature_delta":
		member := strings.TrimSuffix(kind, "_delta")
		text := wire.TextOf(delta[member])
		b.added[member] = append(b.added[member], text...)
		if member == "text" {
			a.sendText(text)
		}
	case "input_json_delta":
		b.input = append(b.input, wire.TextOf(delta["partial_json"])...)
	}
}

func (a *answer) sendText(text string) {
	if text = wire.Text(text); text != "" && a.sink != nil {
		a.sink(model.Delta{Text: text})
	}
}

// buildResponse returns the complete answer.
func (a *answer) buildResponse() (*model.Response, error) {
	u := &a.reply.Usage.Value
	cached := wire.Number(u.CacheReadInputTokens.Value)
	input := wire.Number(u.InputTokens.Value) + wire.Number(u.CacheCreationInputTokens.Value) + cached
	r := &model.Response{
		Model: wire.Text(string(a.reply.Model)), ID: wire.Text(string(a.reply.ID)), Stop: a.stopReason(),
		Usage: wire.Usage(input, cached, wire.Number(u.OutputTokens.Value)),
	}
	for i, b := range a.blocks {
		switch b.text("type") {
		case "text":
			if text := wire.Text(b.text("text")); text != "" {
				r.Parts = append(r.Parts, model.TextPart(text))
			}
		case "tool_use":
			arguments := b.arguments()
			if r.Stop == model.StopMaxTokens && i == len(a.blocks)-1 && !json.Valid([]byte(arguments)) { // cut at the limit
				continue
			}
			r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{ID: a.ids.Take(b.text("id")), Name: wire.Text(b.text("name")), Arguments: arguments}})
		case "thinking", "redacted_thinking":
			value, err := b.encode()
			if err != nil {
				return nil, wire.InvalidAnswer(err.Error())
			}
			r.Parts = append(r.Parts, model.Part{Opaque: &model.Opaque{Provider: name, Value: value}})
		}
	}
	return r, nil
}

func (a *answer) stopReason() model.StopReason {
	switch a.reply.StopReason {
	case "max_tokens", "model_context_window_exceeded":
		return model.StopMaxTokens
	case "refusal":
		return model.StopRefusal
	default: // any other reason
		if a.calls > 0 {
			return model.StopToolCalls
		}
		return model.StopEnd
	}
}

// text returns a member that is a text.
func (b *growingBlock) text(member string) string {
	return wire.TextOf(b.start[member]) + string(b.added[member])
}

// arguments returns the arguments of a call, as the model wrote them. A call without arguments has none, or {} if the answer came at once.
func (b *growingBlock) arguments() string {
	input := b.start["input"]
	switch {
	case len(b.input) > 0:
		return wire.Text(string(b.input))
	case string(input) == "{}" || string(input) == "null":
		return ""
	}
	return wire.Text(string(input))
}

// encode returns the block with all members, also those that are unknown here.
func (b *growingBlock) encode() (json.RawMessage, error) {
	for member := range b.added {
		text, err := json.Marshal(b.text(member))
		if err != nil {
			return nil, err
		}
		b.start[member] = text
	}
	return json.Marshal(b.start)
}

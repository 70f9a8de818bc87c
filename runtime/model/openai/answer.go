package openai

import (
	"encoding/json"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// answer collects the chunks of a response.
type answer struct {
	sink     func(model.Delta)
	ids      wire.IDs
	maxCalls int

	text     strings.Builder
	calls    []*call
	at       map[int64]*call // by the index that the server gave
	refused  bool
	finish   string
	finished bool
	usage    model.Usage
	model    string
	id       string
}

// call is a tool call that arrives in pieces.
type call struct {
	id, name  string
	arguments strings.Builder
}

func newAnswer(request *model.Request, maxCalls int, sink func(model.Delta)) *answer {
	return &answer{sink: sink, ids: wire.IDsOf(request), maxCalls: maxCalls, at: map[int64]*call{}, model: request.Model}
}

// ReadEvent implements [wire.Answer]. The usage comes after the model has finished, so [DONE] is the last event; its loss is no
// reason to ask again.
func (a *answer) ReadEvent(data []byte) (last bool, err error) {
	if strings.TrimSpace(string(data)) == "[DONE]" {
		a.finished = a.finished || a.text.Len() > 0 || len(a.calls) > 0
		return true, nil
	}
	c, err := readChunk(data)
	if err != nil {
		return false, err
	}
	a.setHeading(c)
	for i := range c.Choices {
		if wire.Number(c.Choices[i].Index.Value) != 0 {
			continue
		}
		if err := a.addDelta(&c.Choices[i].Delta.Value, string(c.Choices[i].FinishReason)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// ReadWhole implements [wire.Answer].
func (a *answer) ReadWhole(document []byte) error {
	whole, err := readChunk(document)
	if err != nil {
		return err
	}
	if len(whole.Choices) == 0 {
		return wire.InvalidAnswer("it has no choices")
	}
	a.setHeading(whole)
	return a.addDelta(&whole.Choices[0].Message.Value, string(whole.Choices[0].FinishReason))
}

// IsComplete implements [wire.Answer].
func (a *answer) IsComplete() bool { return a.finished }

// readChunk reads a chunk, or returns the error that the server sent instead.
func readChunk(data []byte) (*chunk, error) {
	var c chunk
	err := json.Unmarshal(data, &c)
	switch {
	case c.Error.Valid:
		return nil, wire.ReadComplaint(data, "").NewError()
	case err != nil:
		return nil, wire.InvalidAnswer(err.Error())
	}
	return &c, nil
}

// setHeading takes a chunk's statements about the answer as a whole.
func (a *answer) setHeading(c *chunk) {
	if c.ID != "" {
		a.id = wire.Text(string(c.ID))
	}
	if c.Model != "" {
		a.model = wire.Text(string(c.Model))
	}
	u := &c.Usage.Value
	if input, output := wire.Number(u.PromptTokens.Value), wire.Number(u.CompletionTokens.Value); input > 0 || output > 0 {
		a.usage = wire.Usage(input, wire.Number(u.PromptTokensDetails.Value.CachedTokens.Value), output)
	}
}

// addDelta takes a piece of the answer.
func (a *answer) addDelta(d *delta, finish string) error {
	a.addText(contentText(d.Content))
	if d.Refusal != "" {
		a.refused = true
		a.addText(string(d.Refusal))
	}
	for i := range d.ToolCalls.Value {
		a.addCall(&d.ToolCalls.Value[i])
	}
	if len(a.calls) > a.maxCalls {
		return wire.TooManyCalls(a.maxCalls)
	}
	if finish != "" {
		a.finish, a.finished = finish, true
	}
	return nil
}

func (a *answer) addText(text string) {
	if text = wire.Text(text); text == "" {
		return
	}
	a.text.WriteString(text)
	if a.sink != nil {
		a.sink(model.Delta{Text: text})
	}
}

// contentText returns the text of a delta's content. Some servers write a list of parts, as in requests.
func contentText(raw json.RawMessage) string {
	if !strings.HasPrefix(string(raw), "[") {
		var text wire.LooseText
		if len(raw) == 0 || json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return string(text)
	}
	var parts []contentPart
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var text strings.Builder
	for _, part := range parts {
		if part.Type == "text" {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}

// addCall takes a piece of a tool call.
func (a *answer) addCall(d *toolCallDelta) {
	c := a.findCall(d)
	if c.id == "" {
		c.id = string(d.ID)
	}
	f := &d.Function.Value
	if name := string(f.Name); name != c.name { // some servers repeat it with every piece
		c.name += name
	}
	c.arguments.WriteString(string(f.Arguments))
}

// findCall returns the call that a piece belongs to, or begins one. The index identifies the call where there is one. But
// some servers give several calls the same index, and others give none.
func (a *answer) findCall(d *toolCallDelta) *call {
	var c *call
	index, indexed := wire.Number(d.Index.Value), d.Index.Valid
	switch {
	case indexed:
		c = a.at[index]
	case len(a.calls) > 0:
		c = a.calls[len(a.calls)-1]
	}
	if c == nil || c.isDone(d, indexed) {
		c = &call{}
		a.calls = append(a.calls, c)
		if indexed {
			a.at[index] = c
		}
	}
	return c
}

// isDone reports whether a piece belongs to another call than c.
func (c *call) isDone(d *toolCallDelta, indexed bool) bool {
	f := &d.Function.Value
	switch {
	case d.ID != "" && c.id != "" && string(d.ID) != c.id:
		return true
	case f.Name == "":
		return false
	case !indexed && c.name != "" && d.ID == "":
		return true
	}
	// The name again: it belongs to c, unless c has all its arguments and new ones begin.
	return c.name != "" && c.arguments.Len() > 0 && json.Valid([]byte(c.arguments.String())) && strings.HasPrefix(strings.TrimSpace(string(f.Arguments)), "{")
}

// buildResponse returns the complete answer.
func (a *answer) buildResponse() *model.Response {
	r := &model.Response{Usage: a.usage, Model: a.model, ID: a.id, Stop: a.stopReason()}
	if text := a.text.String(); text != "" {
		r.Parts = append(r.Parts, model.TextPart(text))
	}
	for i, c := range a.calls {
		arguments := wire.Text(c.arguments.String())
		if r.Stop == model.StopMaxTokens && i == len(a.calls)-1 && !json.Valid([]byte(arguments)) { // cut at the limit
			break
		}
		r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{ID: a.ids.Take(c.id), Name: wire.Text(c.name), Arguments: arguments}})
	}
	return r
}

func (a *answer) stopReason() model.StopReason {
	switch {
	case a.finish == "length":
		return model.StopMaxTokens
	case a.finish == "content_filter":
		return model.StopRefusal
	case len(a.calls) > 0: // for any other reason that the server gives
		return model.StopToolCalls
	case a.refused:
		return model.StopRefusal
	}
	return model.StopEnd
}

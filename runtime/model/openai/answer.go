package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// answer is what has come of one.
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

// call is a tool call that comes in pieces.
type call struct {
	id, name  string
	arguments strings.Builder
}

func newAnswer(request *model.Request, maxCalls int, sink func(model.Delta)) *answer {
	return &answer{sink: sink, ids: wire.IDsOf(request), maxCalls: maxCalls, at: map[int64]*call{}, model: request.Model}
}

// something reports whether there is an answer at all.
func (a *answer) something() bool { return a.text.Len() > 0 || len(a.calls) > 0 }

// about takes what chunks say of the answer as a whole.
func (a *answer) about(id, name string, usage openai.CompletionUsage) {
	if id != "" {
		a.id = wire.Text(id)
	}
	if name != "" {
		a.model = wire.Text(name)
	}
	if usage.PromptTokens > 0 || usage.CompletionTokens > 0 {
		a.usage = wire.Usage(usage.PromptTokens, usage.PromptTokensDetails.CachedTokens, usage.CompletionTokens)
	}
}

// add takes a piece.
func (a *answer) add(delta *openai.ChatCompletionChunkChoiceDelta, finish string) error {
	a.say(content(delta))
	if delta.Refusal != "" {
		a.refused = true
		a.say(delta.Refusal)
	}
	for i := range delta.ToolCalls {
		a.addCall(&delta.ToolCalls[i])
	}
	if len(a.calls) > a.maxCalls {
		return wire.TooManyCalls(a.maxCalls)
	}
	if finish != "" {
		a.finish, a.finished = finish, true
	}
	return nil
}

func (a *answer) say(text string) {
	if text = wire.Text(text); text == "" {
		return
	}
	a.text.WriteString(text)
	if a.sink != nil {
		a.sink(model.Delta{Text: text})
	}
}

// content is the text of a piece. Some servers write a list of parts, as in requests.
func content(delta *openai.ChatCompletionChunkChoiceDelta) string {
	raw := delta.JSON.Content.Raw()
	if !strings.HasPrefix(raw, "[") {
		return delta.Content
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(raw), &parts) != nil {
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

// addCall takes a piece of a call.
func (a *answer) addCall(delta *openai.ChatCompletionChunkChoiceDeltaToolCall) {
	arguments := delta.Function.Arguments
	if raw := delta.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
		arguments = raw // an object where its text belongs
	}
	c := a.callOf(delta, arguments)
	if c.id == "" {
		c.id = delta.ID
	}
	if name := delta.Function.Name; name != c.name { // some repeat it with every piece
		c.name += name
	}
	c.arguments.WriteString(arguments)
}

// callOf finds the call that a piece is of, or begins one. The index says it, where there is one; but some servers give
// several calls the same, and others none.
func (a *answer) callOf(delta *openai.ChatCompletionChunkChoiceDeltaToolCall, arguments string) *call {
	var c *call
	indexed := delta.JSON.Index.Valid()
	switch {
	case indexed:
		c = a.at[delta.Index]
	case len(a.calls) > 0:
		c = a.calls[len(a.calls)-1]
	}
	if c == nil || c.done(delta, arguments, indexed) {
		c = &call{}
		a.calls = append(a.calls, c)
		if indexed {
			a.at[delta.Index] = c
		}
	}
	return c
}

// done reports whether a piece is of another call than c.
func (c *call) done(delta *openai.ChatCompletionChunkChoiceDeltaToolCall, arguments string, indexed bool) bool {
	switch {
	case delta.ID != "" && c.id != "" && delta.ID != c.id:
		return true
	case delta.Function.Name == "":
		return false
	case !indexed && c.name != "" && delta.ID == "":
		return true
	}
	// A name again: of the same call, unless that has all its arguments and others begin.
	return c.name != "" && c.arguments.Len() > 0 && json.Valid([]byte(c.arguments.String())) && strings.HasPrefix(strings.TrimSpace(arguments), "{")
}

// response is the answer, which is whole.
func (a *answer) response() *model.Response {
	r := &model.Response{Usage: a.usage, Model: a.model, ID: a.id, Stop: a.stop()}
	if text := a.text.String(); text != "" {
		r.Parts = append(r.Parts, model.TextPart(text))
	}
	for i, c := range a.calls {
		arguments := wire.Text(c.arguments.String())
		if r.Stop == model.StopMaxTokens && i == len(a.calls)-1 && (!wire.Whole(arguments) || arguments == "") {
			break
		}
		r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{ID: a.ids.Take(c.id), Name: wire.Text(c.name), Arguments: arguments}})
	}
	return r
}

func (a *answer) stop() model.StopReason {
	switch {
	case a.finish == "length":
		return model.StopMaxTokens
	case a.finish == "content_filter":
		return model.StopRefusal
	case len(a.calls) > 0: // whatever else it says
		return model.StopToolCalls
	case a.refused:
		return model.StopRefusal
	}
	return model.StopEnd
}

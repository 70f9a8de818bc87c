// Package scripted owns models that are scripts: functions of this program, for its demonstration and for tests. They cost
// nothing and give the same answers each time.
package scripted

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// Script answers a request. It must be safe for concurrent use, and must not keep the request. An error other than *model.Error
// is not retryable.
type Script func(*model.Request) (*model.Response, error)

// Provider asks scripts by the request's model. It is immutable.
type Provider map[string]Script

// Generate implements [model.Provider]. It passes the text in a few pieces, adds missing ids of calls, and derives a missing
// stop reason from the calls.
func (p Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	script := p[request.Model]
	if script == nil {
		return nil, &model.Error{Message: "there is no script " + strconv.Quote(request.Model)}
	}
	if err := ctx.Err(); err != nil {
		return nil, &model.Error{Message: "the request was canceled", Err: err}
	}
	answer, err := script(request)
	if err != nil {
		if failed, ok := errors.AsType[*model.Error](err); ok {
			return nil, failed
		}
		return nil, &model.Error{Message: "the script failed: " + err.Error(), Err: err}
	}
	if answer == nil {
		return nil, &model.Error{Message: "the script has no answer"}
	}
	response := completeAnswer(request, answer)
	for _, part := range response.Parts {
		if part.Text != nil && sink != nil {
			for _, piece := range splitText(part.Text.Text) {
				sink(model.Delta{Text: piece})
			}
		}
	}
	return response, nil
}

// completeAnswer returns a copy of the answer with defaults filled in.
func completeAnswer(request *model.Request, answer *model.Response) *model.Response {
	response, calls := *answer, 0
	response.Parts = make([]model.Part, len(answer.Parts))
	for i, part := range answer.Parts {
		if part.Call != nil {
			calls++
			named := *part.Call
			if named.ID == "" {
				named.ID = "call_" + strconv.Itoa(len(request.Messages)) + "_" + strconv.Itoa(calls)
			}
			part.Call = &named
		}
		response.Parts[i] = part
	}
	if response.Model == "" {
		response.Model = request.Model
	}
	switch {
	case response.Stop != "":
	case calls > 0:
		response.Stop = model.StopToolCalls
	default:
		response.Stop = model.StopEnd
	}
	return &response
}

// splitText splits a text between words.
func splitText(text string) []string {
	words := strings.SplitAfter(text, " ")
	const most = 4
	size := (len(words) + most - 1) / most
	var list []string
	for start := 0; start < len(words); start += size {
		if piece := strings.Join(words[start:min(start+size, len(words))], ""); piece != "" {
			list = append(list, piece)
		}
	}
	return list
}

package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Outgoing is the very request of a call to an HTTP API.
type Outgoing struct {
	Method  string                `json:"method"`
	URL     string                `json:"url" doc:"Secrets in it are masked."`
	Headers []tool.OutgoingHeader `json:"headers" nullable:"false" doc:"Of a secret the value is left out."`
	Content
}

// Content is a body.
type Content struct {
	Text  *string `json:"text" doc:"The body, when it is UTF-8; null: there is none, or it is not."`
	Bytes *string `json:"bytes" contentEncoding:"base64" doc:"The body in base64, when it is not UTF-8; else null."`
}

func newContent(body []byte) Content {
	switch {
	case len(body) == 0:
		return Content{}
	case utf8.Valid(body):
		text := string(body)
		return Content{Text: &text}
	}
	encoded := base64.StdEncoding.EncodeToString(body)
	return Content{Bytes: &encoded}
}

func newOutgoing(o *tool.Outgoing) *Outgoing {
	if o == nil {
		return nil
	}
	view := &Outgoing{Method: o.Method, URL: o.URL, Headers: o.Headers, Content: newContent(o.Body)}
	if view.Headers == nil {
		view.Headers = []tool.OutgoingHeader{}
	}
	return view
}

func outgoingOf(c *call.Call) (*Outgoing, error) {
	o, err := c.Outgoing()
	return newOutgoing(o), err
}

// Preview is the present state of what a call would change.
type Preview struct {
	Request Outgoing `json:"request" doc:"That the state was read with."`
	Status  int      `json:"status" doc:"HTTP status of the answer."`
	Media   string   `json:"media_type"`
	Cut     bool     `json:"cut" doc:"The body was longer."`
	Content
}

// previewCall reads what a parked call would change.
func (a *API) previewCall(ctx context.Context, input *ByID) (*bodyOutput[Preview], error) {
	id, err := idOf("approval", input.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := a.calls.Approval(ctx, id)
	if err != nil {
		return nil, named(err, "approval", input.ID)
	}
	state, err := a.calls.Before(ctx, &waiting.Call)
	switch failure, failed := errors.AsType[*tool.Failure](err); {
	case errors.Is(err, call.ErrState):
		return nil, problem(http.StatusConflict, CodeStateConflict, "the call does not wait for a decision any more")
	case errors.Is(err, call.ErrNoPreview):
		return nil, problem(http.StatusNotFound, CodeNotFound, "there is no preview of this call")
	case failed:
		return nil, problem(http.StatusBadGateway, CodeUpstreamFailed, "the present state could not be read: %s", failure.Message)
	case err != nil:
		return nil, err
	}
	return output(Preview{
		Request: *newOutgoing(&state.Request), Status: state.Status, Media: state.Media, Cut: state.Cut, Content: newContent(state.Body),
	}), nil
}

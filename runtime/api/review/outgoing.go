package review

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func outgoingOf(c *call.Call) (*rest.Outgoing, error) {
	o, err := c.Outgoing()
	return rest.NewOutgoing(o), err
}

// Preview is the current state of the data that a call would change.
type Preview struct {
	Request rest.Outgoing `json:"request" doc:"The request that read the state."`
	Status  int           `json:"status" doc:"HTTP status of the response."`
	Media   string        `json:"media_type"`
	Cut     bool          `json:"cut" doc:"The body was longer and is cut."`
	rest.Content
}

// previewCall reads the data that a parked call would change.
func (h *approvalHandlers) previewCall(ctx context.Context, input *rest.ByID) (*rest.Output[Preview], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := h.calls.GetApproval(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "approval", input.ID)
	}
	state, err := h.calls.ReadBefore(ctx, &waiting.Call)
	switch failure, failed := errors.AsType[*tool.Failure](err); {
	case errors.Is(err, call.ErrState):
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the call no longer waits for a decision")
	case errors.Is(err, call.ErrNoPreview):
		return nil, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "there is no preview of this call")
	case failed:
		return nil, rest.NewProblem(http.StatusBadGateway, rest.CodeUpstreamFailed, "the current state cannot be read: %s", failure.Message)
	case err != nil:
		return nil, err
	}
	return rest.NewOutput(Preview{
		Request: *rest.NewOutgoing(&state.Request), Status: state.Status, Media: state.Media, Cut: state.Cut, Content: rest.NewContent(state.Body),
	}), nil
}

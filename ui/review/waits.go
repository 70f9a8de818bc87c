package review

import (
	"context"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view"
)

// wait is a call's wait for a connection, with who can end it; nil when the call does not wait for one.
func (h *reader) wait(ctx context.Context, access identity.Access, s *subject) (*view.Wait, error) {
	if s.call.Status != call.NeedsConnection {
		return nil, nil
	}
	// The deadline is left out of a call that is not among the first of its skill.
	waiting := call.Unconnected{Call: s.call, Reason: s.call.Message}
	list, err := h.calls.ListUnconnected(ctx, s.call.SkillID, present.WaitWindow)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Call.ID == s.call.ID {
			waiting.Reason, waiting.Deadline = list[i].Reason, list[i].Deadline
		}
	}
	presented := present.Wait(&waiting, s.names, s.pulse.Now)
	presented.Who, err = h.connections.Resolver(ctx, access, &s.call, s.names)
	return &presented, err
}

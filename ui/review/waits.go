package review

import (
	"context"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentWait presents a call that waits for a connection, with the people who can connect it. It returns nil for other calls.
func (h *reader) presentWait(ctx context.Context, access identity.Access, s *subject) (*view.Wait, error) {
	if s.call.Status != call.NeedsConnection {
		return nil, nil
	}
	// Only the first calls of a skill have a deadline here.
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
	presented := present.Wait(&waiting, s.names, s.now)
	presented.Who, err = h.connections.Resolver(ctx, access, &s.call, s.names)
	return &presented, err
}

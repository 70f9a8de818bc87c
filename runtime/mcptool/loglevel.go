package mcptool

import (
	"context"
	"time"
)

// logPatience is how long a request waits for a server to take the level of its messages.
const logPatience = 2 * time.Second

// hearLogs has a server of sessions send the log messages that an errand wants. The level is the
// session's, which others share: it is lowered to what the most curious one wants, and never raised
// again. Each errand picks what it wants of what comes. A server that refuses goes on
// as it likes.
func (h *held) hearLogs(ctx context.Context, r *request) {
	e, agreed := r.errand, h.peer.negotiated()
	if !e.wantsLogs() || agreed.modern() || !agreed.offers.Logging || !leadsToQuestions(r.method) {
		return
	}
	wanted := gravity(e.caller.LogLevel)
	h.keeper.mu.Lock()
	set := h.logLevel != 0 && h.logLevel <= wanted
	if !set {
		h.logLevel = wanted
	}
	h.keeper.mu.Unlock()
	if set {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	out := h.peer.exchange(ctx, &request{
		method: "logging/setLevel", members: quoted([]byte(`"level":`), e.caller.LogLevel),
		limit: envelopeRoom, what: "logging/setLevel",
	})
	if out.failure != nil {
		e.log.Debug("set the level of a server's messages", "error", out.failure)
	}
}

package mcptool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Probe implements [tool.Source]: it makes a peer of its own, lists its tools,
// and closes it.
func (s *Source) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	h := &handshake{now: s.config.Now, step: step}
	p, failure := s.connect(ctx, server, eraUnknown, h, listener{})
	if failure != nil {
		h.fail(failure)
		return failure
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		p.close(ctx)
	}()
	h.begin("tools/list", "")
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	listing, failure := listTools(ctx, s.config.Limits, func(ctx context.Context, r *request) (json.RawMessage, negotiated, *tool.Failure) {
		out := p.exchange(ctx, r)
		return out.result, p.negotiated(), out.failure
	}, server.Transport)
	if failure != nil {
		failure = without(failure)
		h.fail(failure)
		return failure
	}
	detail := fmt.Sprintf("%d tools", len(listing.Tools))
	if n := len(listing.Skipped); n > 0 {
		detail += fmt.Sprintf(", %d skipped", n)
	}
	h.finish(detail, nil)
	return nil
}

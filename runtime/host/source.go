package host

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source is the [tool.Source] of skills without a server: it lists the tools of the host and sends no calls.
type Source struct{}

// List implements [tool.Source]. Tools that callers named are not in the listing; see [tool.Discovery.Register].
func (Source) List(_ context.Context, server tool.Server) (tool.Listing, error) {
	return tool.Listing{Tools: Tools(server.Host)}, nil
}

// Call implements [tool.Source]. It always fails: the caller executes the call.
func (Source) Call(_ context.Context, server tool.Server, _ tool.CallRequest) (tool.Result, error) {
	return tool.Result{}, &tool.Failure{
		Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: fmt.Sprintf("skill %s has no server: its callers execute its calls", server.Skill),
	}
}

// Probe implements [tool.Source].
func (Source) Probe(_ context.Context, server tool.Server, step func(tool.Step)) error {
	step(tool.Step{Name: "tools/list", Detail: fmt.Sprintf("%d tools; the skill has no server", len(Tools(server.Host)))})
	return nil
}

// Ready implements [tool.Source].
func (Source) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }

// Forget implements [tool.Source].
func (Source) Forget(uuid.UUID) {}

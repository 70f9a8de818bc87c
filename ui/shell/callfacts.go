package shell

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// CallFacts holds the approvals, tool definitions and people of calls.
type CallFacts struct {
	Approvals   map[uuid.UUID]approval.Approval
	Definitions map[tool.Pin]tool.Definition
	Names       map[uuid.UUID]string // of people
}

// CallFactsReader reads [CallFacts].
type CallFactsReader struct {
	*Shell

	Discovery *tool.Discovery // definitions of tools, by pin
}

// Read reads the facts of some calls.
func (h *CallFactsReader) Read(ctx context.Context, calls []call.Call) (f CallFacts, err error) {
	if f.Approvals, err = h.calls.ReadApprovals(ctx, calls); err != nil {
		return f, err
	}
	people := make([]uuid.UUID, 0, 2*len(calls))
	for i := range calls {
		people = append(people, calls[i].PrincipalID, f.Approvals[calls[i].ID].DecidedBy)
	}
	if f.Definitions, err = h.DefinitionsOf(ctx, calls); err != nil {
		return f, err
	}
	f.Names, err = h.Names(ctx, people...)
	return f, err
}

// DefinitionsOf returns the definitions of calls and of more pins.
func (h *CallFactsReader) DefinitionsOf(ctx context.Context, calls []call.Call, more ...tool.Pin) (map[tool.Pin]tool.Definition, error) {
	pins := slices.DeleteFunc(more, tool.Pin.IsZero)
	for i := range calls {
		pins = append(pins, calls[i].Pin)
	}
	return h.Discovery.Definitions(ctx, pins)
}

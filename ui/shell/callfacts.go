package shell

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// CallFacts holds the approvals, secrets and people of calls.
type CallFacts struct {
	Approvals map[uuid.UUID]approval.Approval
	Secrets   map[uuid.UUID]*secretfield.Rules // in the arguments
	Names     map[uuid.UUID]string             // of people
}

// CallFactsReader reads [CallFacts].
type CallFactsReader struct {
	*Shell
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
	if f.Secrets, err = h.calls.ReadSecrets(ctx, calls...); err != nil {
		return f, err
	}
	f.Names, err = h.Names(ctx, people...)
	return f, err
}

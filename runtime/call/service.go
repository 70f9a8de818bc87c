// Package call is being assembled.
package call

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
)

// Service is the life of calls.
type Service struct{}

// CleanArguments is the door: it refuses what must not come in and returns the argument
// bytes with insignificant white space dropped. The error is a *DoorError.
func CleanArguments(raw []byte) (json.RawMessage, error) { panic("soon") }

// DoorError says why arguments were refused at the door.
type DoorError struct {
	Pointer string // RFC 6901, where in the arguments
	Reason  string
}

func (e *DoorError) Error() string { return e.Pointer + ": " + e.Reason }

// Submit takes a call in: validates its arguments, judges it, and records it. An auto-approved
// call is on its way when Submit returns; a gated one is parked, or attached to
// an earlier one. Invalid arguments and denials are outcomes (Ticket.Status is final), not errors.
func (s *Service) Submit(ctx context.Context, sub Submission) (Ticket, error) { panic("soon") }

// Wait returns when the call has reached its end, or ctx ends (then ctx's error).
// However many wait for one call, each gets its outcome.
func (s *Service) Wait(ctx context.Context, id uuid.UUID) (Call, error) { panic("soon") }

// Delivered says that the call's outcome reached its agent: a repeat is a new call from then on.
func (s *Service) Delivered(ctx context.Context, id uuid.UUID) error { panic("soon") }

// Get returns a call that the viewer may see, or ErrNotFound.
func (s *Service) Get(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) { panic("soon") }

// Filter selects calls. Zero fields select all.
type Filter struct {
	Viewer  Viewer
	AgentID uuid.UUID
	Status  Status
	Before  uuid.UUID // only calls older than this one: the cursor
	Limit   int       // at most 200; zero: 50
}

// List returns calls, newest first, and the cursor of the next page (uuid.Nil: none).
func (s *Service) List(ctx context.Context, f Filter) ([]Call, uuid.UUID, error) { panic("soon") }

// QueueFilter selects approvals.
type QueueFilter struct {
	Status approval.Status // empty: all
	Before uuid.UUID       // newest first listing: only older ones
	Limit  int             // at most 200; zero: 50
}

// Approvals returns approvals with their calls, newest first, and the cursor of the next page.
func (s *Service) Approvals(ctx context.Context, f QueueFilter) ([]Waiting, uuid.UUID, error) {
	panic("soon")
}

// Queue returns up to limit pending approvals by deadline, and how many are pending in all.
func (s *Service) Queue(ctx context.Context, limit int) ([]Waiting, int, error) { panic("soon") }

// Approval returns one approval with its call, or approval.ErrNotFound.
func (s *Service) Approval(ctx context.Context, callID uuid.UUID) (Waiting, error) { panic("soon") }

// Decide records a reviewer's decision. Errors: approval.ErrNotFound,
// approval.ErrDigestMismatch, approval.ErrSelfApproval, *approval.ConflictError.
func (s *Service) Decide(ctx context.Context, d Decision) (Waiting, error) { panic("soon") }

// Cancel ends a call that nobody decided about yet. Errors: ErrNotFound, ErrState.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, by uuid.UUID, id uuid.UUID) (Call, error) {
	panic("soon")
}

// Resolve records what an operator found out about an unknown outcome: "executed" or "not_executed".
func (s *Service) Resolve(ctx context.Context, id uuid.UUID, r Resolution) (Call, error) {
	panic("soon")
}

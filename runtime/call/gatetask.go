package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
)

// GateTask is the approval of a gate-only call, for a caller that asks about the decision before it asks for the release.
type GateTask struct {
	Pending       bool
	Approved      bool   // also after the call was released
	Status        Status // of the call
	Deadline      time.Time
	DecidedAt     *time.Time
	ApprovedUntil *time.Time

	call *Call
}

// ReadGateTask returns the approval of a call. Errors: ErrNotFound.
func (s *Service) ReadGateTask(ctx context.Context, viewer Viewer, id uuid.UUID) (*GateTask, error) {
	c, released, err := s.loadGated(ctx, viewer, id)
	if err != nil {
		return nil, fmt.Errorf("read the approval of call %s: %w", id, err)
	}
	t := &GateTask{Pending: c.Status == Parked || c.Status == NeedsConnection, Status: c.Status, call: c}
	a, err := approval.Get(ctx, s.Pool, id)
	if errors.Is(err, approval.ErrNotFound) { // it needed none
		t.Approved = released != nil
		return t, nil
	}
	t.Approved = a.Status == approval.Approved
	t.Deadline, t.DecidedAt, t.ApprovedUntil = a.Deadline, a.DecidedAt, a.ApprovedUntil
	return t, err
}

// IsAbout reports whether a submission is the call of the task: the same tool, arguments, directory and subject.
func (t *GateTask) IsAbout(sub *Submission) (bool, error) {
	c, err := newGateCall(sub)
	return err == nil && c.AgentID == t.call.AgentID && c.PrincipalID == t.call.PrincipalID && c.SkillID == t.call.SkillID &&
		bytes.Equal(c.gateSum(), t.call.gateSum()), err
}

// NameGateRequest records that the name of a request means a call. Error: ErrKeyReused if it means another one.
func (s *Service) NameGateRequest(ctx context.Context, sub *Submission, id uuid.UUID) error {
	for {
		known, err := s.findRequest(ctx, sub)
		switch {
		case err != nil || known == id:
			return err
		case known != uuid.Nil:
			return ErrKeyReused
		}
		if err := s.attachRequest(ctx, sub, id); !errors.Is(err, errRequestTaken) {
			return err
		}
	}
}

package call

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// EditError says why a reviewer's arguments are not valid.
type EditError struct {
	Problems []tool.Problem
	Cause    error // a *[DoorError]; then Problems is empty
}

func (e *EditError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	return "arguments: " + listProblems(e.Problems)
}

// Unwrap returns [ErrEdit].
func (e *EditError) Unwrap() error { return ErrEdit }

// edit is a reviewer's change of the arguments of a call.
type edit struct {
	arguments   json.RawMessage
	request     json.RawMessage // made of the arguments
	envelope    approval.Digest // digest of the call with the arguments
	changed     []string        // names of the members that differ from the agent's arguments
	restores    bool            // the arguments are the agent's own, and discard an earlier edit
	needsSecond bool            // another reviewer has to approve the edit
	unusual     int             // arguments that differ from those of approved calls; counted if needsSecond
	base        json.RawMessage // the waiting arguments that the edit replaces
	unchanged   bool            // the arguments equal base
	tooLate     bool            // the call is not parked
}

// CheckEdit validates a reviewer's arguments for a parked call, and returns them as they would be sent.
// Errors: ErrNotFound, *[EditError].
func (s *Service) CheckEdit(ctx context.Context, c *Call, arguments []byte) (json.RawMessage, error) {
	if c.GateOnly && !c.Binding().TakesEdits {
		return nil, &EditError{Problems: []tool.Problem{{Message: "must stay as they are: Holdpoint does not execute this call, and its caller takes no other arguments"}}}
	}
	clean, err := CleanArguments(arguments)
	if refused := (*DoorError)(nil); errors.As(err, &refused) {
		return nil, &EditError{Cause: refused}
	}
	if err != nil {
		return nil, err
	}
	if err := file.CheckEdit(c.originalArguments(), clean, len(c.Files) > 0); err != nil {
		if refused, ok := errors.AsType[*file.AttachmentError](err); ok {
			err = &EditError{Problems: []tool.Problem{{Pointer: refused.Pointer, Message: refused.Expected}}}
		}
		return nil, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return nil, err
	}
	if r, err := s.checkArguments(ctx, definition, clean); err != nil {
		return nil, err
	} else if r != nil {
		if len(r.problems) == 0 {
			r.problems = []tool.Problem{{Message: r.message}}
		}
		return nil, &EditError{Problems: r.problems}
	}
	if _, err := s.PreviewEdit(ctx, c, clean); err != nil {
		return nil, err
	}
	return clean, nil
}

// originalArguments returns the agent's arguments, with the URLs of attachments.
func (c *Call) originalArguments() json.RawMessage {
	if c.Submitted != nil {
		return c.Submitted
	}
	return c.Arguments
}

// WasEdited reports whether the call was approved with other arguments than the agent's.
func (c *Call) WasEdited() bool {
	switch c.Status {
	case Parked, Rejected, Expired, Cancelled: // the edit was not approved
		return false
	default:
		return c.Submitted != nil
	}
}

// EditNeedsSecond reports whether an edit of the call needs the approval of other reviewers: by the setting of its skill, or because the call
// has policies, which never ask the editor. It reads the database.
func (s *Service) EditNeedsSecond(ctx context.Context, c *Call) (bool, error) {
	if a, err := approval.Get(ctx, s.Pool, c.ID); err != nil || len(a.Policies) > 0 {
		return true, err
	}
	skill, _, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return true, nil // the call will not be sent in any case
	}
	if err != nil {
		return true, fmt.Errorf("read the edit rule of call %s: %w", c.ID, err)
	}
	return skill.EditNeedsSecond(c.Tool), nil
}

// MayBeEditor reports whether a person counts as the editor of an edit, and so may not approve it.
func (s *Service) MayBeEditor(ctx context.Context, editor, by uuid.UUID) (bool, error) {
	return s.mayBeEditor(ctx, s.Pool, editor, by)
}

// mayBeEditor also returns true for unverified people whose inviter may be the editor.
func (s *Service) mayBeEditor(ctx context.Context, db postgres.Querier, editor, by uuid.UUID) (bool, error) {
	if s.AllowSelfApproval {
		return identity.Same(ctx, db, editor, by)
	}
	return identity.MayBeOne(ctx, db, editor, by)
}

// prepareEdit validates the edit of a decision and makes the envelope of the edited call. Nil: the decision has no edit. [Service.approveCall]
// compares its base again under the lock of the approval.
func (s *Service) prepareEdit(ctx context.Context, d *Decision) (*edit, error) {
	if d.Arguments == nil {
		return nil, nil
	}
	c, err := s.loadCall(ctx, d.CallID)
	if errors.Is(err, ErrNotFound) {
		return nil, approval.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if c.Status != Parked {
		return &edit{tooLate: true}, nil // the decision reports the conflict
	}
	clean, err := s.CheckEdit(ctx, c, d.Arguments)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(clean, c.Arguments) {
		return &edit{base: c.Arguments, unchanged: true}, nil
	}
	e := &edit{arguments: clean, base: c.Arguments, restores: c.Submitted != nil && bytes.Equal(clean, c.Submitted)}
	if e.changed, err = changedMembers(c.originalArguments(), clean); err != nil {
		return nil, err
	}
	if !e.restores {
		if e.needsSecond, err = s.EditNeedsSecond(ctx, c); err != nil {
			return nil, err
		}
	}
	c.Arguments = clean
	if err := s.previewEdited(ctx, c); err != nil {
		return nil, err
	}
	if e.needsSecond {
		e.unusual = s.countUnusual(ctx, c)
	}
	e.request, e.envelope = c.request, c.buildEnvelope().Digest()
	return e, nil
}

// proposeEdit records an edit for another reviewer to approve. The deadline stays.
func (s *Service) proposeEdit(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, e *edit) (approval.Approval, error) {
	before := a
	a, err := approval.ProposeEdit(ctx, tx, a, e.envelope, d.By, e.unusual)
	if err != nil {
		return a, err
	}
	tag, err := tx.Exec(ctx, `UPDATE calls SET submitted = coalesce(submitted, arguments), arguments = $2, request = $3
		WHERE id = $1 AND status = 'parked'`, a.CallID, []byte(e.arguments), []byte(e.request))
	if err != nil {
		return a, fmt.Errorf("edit call: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return a, fmt.Errorf("edit call: %w: it is not parked", ErrState)
	}
	event := audit.Event{
		Actor: audit.Person(d.By), Action: audit.ApprovalEditProposed, Subject: a.CallID,
		Data: map[string]any{"digest": a.Digest.String(), "original_digest": a.Original.String(), "edited": e.changed, "note": d.Note},
	}
	if before.EditedBy != uuid.Nil {
		event.Data["replaces"] = before.Digest.String()
	}
	return a, audit.Write(ctx, tx, event)
}

// applyEdit stores the arguments of an approved edit in the approval and the call, and adds them to the data of the audit event.
func (s *Service) applyEdit(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, e *edit, data map[string]any) (approval.Approval, error) {
	var err error
	switch before := a; {
	case (e == nil || e.unchanged) && a.EditedBy == uuid.Nil:
		return a, nil
	case e == nil || e.unchanged:
		if own, err := s.mayBeEditor(ctx, tx, a.EditedBy, d.By); err != nil || own {
			return a, cmp.Or(err, approval.ErrOwnEdit)
		}
		if a, err = approval.AcceptEdit(ctx, tx, a); err != nil {
			return a, err
		}
		data["edit_digest"], data["edited_by"] = before.Digest.String(), a.EditedBy.String()
		data["digest"], data["original_digest"] = a.Digest.String(), a.Original.String()
		return a, nil
	case e.restores:
		if a, err = approval.DiscardEdit(ctx, tx, a, e.envelope); err != nil {
			return a, err
		}
		data["digest"], data["discarded_digest"] = a.Digest.String(), before.Digest.String()
	default:
		if a, err = approval.ApplyEdit(ctx, tx, a, e.envelope); err != nil {
			return a, err
		}
		data["edited"], data["digest"], data["original_digest"] = e.changed, a.Digest.String(), a.Original.String()
	}
	_, err = tx.Exec(ctx, `UPDATE calls SET submitted = CASE WHEN $4 THEN NULL ELSE coalesce(submitted, arguments) END, arguments = $2, request = $3
		WHERE id = $1 AND status = 'parked'`, a.CallID, []byte(e.arguments), []byte(e.request), e.restores)
	if err != nil {
		return a, fmt.Errorf("edit call: %w", err)
	}
	return a, nil
}

const maxChanged = 50

// changedMembers are the names of those members of two objects that differ, in the order of the second.
func changedMembers(before, after []byte) ([]string, error) {
	old, _, err := topMembers(before)
	if err != nil {
		return nil, err
	}
	present, order, err := topMembers(after)
	if err != nil {
		return nil, err
	}
	changed := []string{}
	for _, name := range order {
		if was, ok := old[name]; !ok || !bytes.Equal(was, present[name]) {
			changed = append(changed, clipPointer(name))
		}
		delete(old, name)
	}
	gone := make([]string, 0, len(old))
	for name := range old {
		gone = append(gone, clipPointer(name))
	}
	slices.Sort(gone)
	changed = append(changed, gone...)
	return changed[:min(len(changed), maxChanged)], nil
}

// topMembers reads the members of an object, and the order of their names.
func topMembers(object []byte) (map[string][]byte, []string, error) {
	members, order := map[string][]byte{}, []string{}
	for m, err := range rawjson.Members(object) {
		if err != nil {
			return nil, nil, fmt.Errorf("arguments: %w", err)
		}
		name := m.Name()
		members[name], order = m.Value, append(order, name)
	}
	return members, order, nil
}

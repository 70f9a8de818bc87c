package call

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// EditError says what is wrong with the arguments that a reviewer gave.
type EditError struct {
	Problems []tool.Problem
	Cause    error // a *[DoorError]; then there are no problems
}

func (e *EditError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	return "arguments: " + listProblems(e.Problems)
}

// Unwrap makes it an [ErrEdit].
func (e *EditError) Unwrap() error { return ErrEdit }

// edit is what a reviewer makes of a call.
type edit struct {
	arguments json.RawMessage
	request   json.RawMessage // that they make
	envelope  approval.Digest // of the call with these arguments
	changed   []string        // names of the members that differ from the agent's: what was edited, without the values
	restores  bool            // these are the agent's own arguments, which somebody had edited
	second    bool            // another reviewer has to approve it
	of        json.RawMessage // the arguments that waited when it was read
	same      bool            // these are those
	late      bool            // the call was not parked when it was read; nothing is approved by this
}

// CheckEdit says what a reviewer's arguments would make of a parked call: the arguments as they would be sent.
// Errors: ErrNotFound, *[EditError].
func (s *Service) CheckEdit(ctx context.Context, c *Call, arguments []byte) (json.RawMessage, error) {
	clean, err := CleanArguments(arguments)
	if refused := (*DoorError)(nil); errors.As(err, &refused) {
		return nil, &EditError{Cause: refused}
	}
	if err != nil {
		return nil, err
	}
	if err := file.CheckEdit(c.beforeEdits(), clean, len(c.Files) > 0); err != nil {
		return nil, editProblem(err)
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return nil, err
	}
	schemas, err := s.schemas.get(definition)
	if err != nil {
		return nil, err
	}
	if r, err := s.schemas.checkArguments(ctx, schemas, clean); err != nil {
		return nil, err
	} else if r != nil {
		if len(r.problems) == 0 {
			r.problems = []tool.Problem{{Message: r.message}}
		}
		return nil, &EditError{Problems: r.problems}
	}
	if _, err := s.OutgoingWith(ctx, c, clean); err != nil {
		return nil, err
	}
	return clean, nil
}

// beforeEdits are the arguments as the call was made with, attachments frozen.
func (c *Call) beforeEdits() json.RawMessage {
	if c.Submitted != nil {
		return c.Submitted
	}
	return c.Arguments
}

// WasEdited reports whether the call was approved with other arguments than the agent's.
func (c *Call) WasEdited() bool {
	switch c.Status {
	case Parked, Rejected, Expired, Cancelled: // an edit that nobody approved
		return false
	default:
		return c.Submitted != nil
	}
}

// EditNeedsSecond reports whether an edit of the call's arguments has to be approved by another reviewer than its editor. The answer
// comes from the database.
func (s *Service) EditNeedsSecond(ctx context.Context, c *Call) (bool, error) {
	skill, _, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return true, nil // the call will not be sent, whatever is decided
	}
	if err != nil {
		return true, fmt.Errorf("read who approves edits of call %s: %w", c.ID, err)
	}
	return skill.EditNeedsSecond(c.Tool), nil
}

// WroteEdit reports whether a person counts as the editor of an edit, and so may not approve it.
func (s *Service) WroteEdit(ctx context.Context, editor, by uuid.UUID) (bool, error) {
	return s.wroteEdit(ctx, s.Pool, editor, by)
}

// wroteEdit also counts people who may be another name of the editor: nobody but an inviter says who they are.
func (s *Service) wroteEdit(ctx context.Context, db postgres.Querier, editor, by uuid.UUID) (bool, error) {
	if s.AllowSelfApproval {
		return identity.Same(ctx, db, editor, by)
	}
	return identity.MayBeOne(ctx, db, editor, by)
}

// edited makes the envelope of an edited call, which the decision is about from then on. Nil: the decision is about the arguments that
// wait. Whether they still wait, [checkEdited] tells when the approval's lock is held.
func (s *Service) edited(ctx context.Context, d *Decision) (*edit, error) {
	if d.Arguments == nil {
		return nil, nil
	}
	c, err := s.load(ctx, d.CallID)
	if errors.Is(err, ErrNotFound) {
		return nil, approval.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if c.Status != Parked {
		return &edit{late: true}, nil // the decision finds out why
	}
	clean, err := s.CheckEdit(ctx, c, d.Arguments)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(clean, c.Arguments) {
		return &edit{of: c.Arguments, same: true}, nil
	}
	e := &edit{arguments: clean, of: c.Arguments, restores: c.Submitted != nil && bytes.Equal(clean, c.Submitted)}
	if e.changed, err = changedMembers(c.beforeEdits(), clean); err != nil {
		return nil, err
	}
	if !e.restores {
		if e.second, err = s.EditNeedsSecond(ctx, c); err != nil {
			return nil, err
		}
	}
	c.Arguments = clean
	if err := s.redraw(ctx, c); err != nil {
		return nil, err
	}
	e.request, e.envelope = c.request, c.envelope().Digest()
	return e, nil
}

// propose records an edit for another reviewer to approve. The call waits on, until its old deadline.
func (s *Service) propose(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, e *edit) (approval.Approval, error) {
	before := a
	a, err := approval.ProposeEdit(ctx, tx, a, e.envelope, d.By)
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
		Actor: audit.Person(d.By), Action: "approval.edit_proposed", Subject: a.CallID,
		Data: map[string]any{"digest": a.Digest.String(), "original_digest": a.Original.String(), "edited": e.changed, "note": d.Note},
	}
	if before.EditedBy != uuid.Nil {
		event.Data["replaces"] = before.Digest.String()
	}
	return a, audit.Write(ctx, tx, event)
}

// checkEdited refuses an edit of other arguments than those that wait now, under the approval's lock.
func checkEdited(ctx context.Context, tx pgx.Tx, id uuid.UUID, e *edit) error {
	var still bool
	if err := tx.QueryRow(ctx, `SELECT arguments = $2 FROM calls WHERE id = $1`, id, []byte(e.of)).Scan(&still); err != nil {
		return fmt.Errorf("compare edited arguments: %w", err)
	}
	if !still {
		return approval.ErrDigestMismatch
	}
	return nil
}

// applyEdit gives an approval and its call the arguments that a decision is about, and says so in the data of the decision's audit event.
func (s *Service) applyEdit(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, e *edit, data map[string]any) (approval.Approval, error) {
	var err error
	switch before := a; {
	case (e == nil || e.same) && a.EditedBy == uuid.Nil:
		return a, nil
	case e == nil || e.same:
		if own, err := s.wroteEdit(ctx, tx, a.EditedBy, d.By); err != nil || own {
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
			changed = append(changed, clip(name))
		}
		delete(old, name)
	}
	gone := make([]string, 0, len(old))
	for name := range old {
		gone = append(gone, clip(name))
	}
	slices.Sort(gone)
	changed = append(changed, gone...)
	return changed[:min(len(changed), maxChanged)], nil
}

func topMembers(object []byte) (map[string][]byte, []string, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, nil, fmt.Errorf("read arguments: %w", err)
	}
	members, order := map[string][]byte{}, []string{}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, nil, fmt.Errorf("read arguments: %w", err)
		}
		text := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, nil, fmt.Errorf("read arguments: %w", err)
		}
		members[text] = bytes.Clone(value)
		order = append(order, text)
	}
	return members, order, nil
}

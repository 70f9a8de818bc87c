package converse

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// makeCalls makes the calls that a reply wants, those that an earlier attempt did not, and ends the turn: they have ended
// already, or it waits for them.
func (t *turn) makeCalls(ctx context.Context) error {
	reply, err := t.readReply(ctx)
	if err != nil {
		return err
	}
	refused, err := t.submitAll(ctx, reply)
	if err == nil {
		failpoint.Hit(failpoint.TurnAfterCalls)
		err = t.submitted(ctx, refused)
	}
	if err == nil && !t.loop.Stopping {
		return nil
	}
	return errors.Join(err, t.recall(context.WithoutCancel(ctx)))
}

// submitted writes down that all calls of the reply were made, but for those that became none.
func (t *turn) submitted(ctx context.Context, refused map[uuid.UUID]string) error {
	return t.change(ctx, func(tx pgx.Tx, l *loop) error {
		for id, why := range refused {
			tag, err := tx.Exec(ctx, `UPDATE loop_calls SET ended = true, refused = $2 WHERE call_id = $1 AND NOT ended`, id, why)
			if err != nil {
				return fmt.Errorf("write refused call: %w", err)
			}
			l.OpenCalls -= int(tag.RowsAffected())
		}
		l.submitted = true
		if l.OpenCalls > 0 {
			l.move(Waiting)
		} else {
			l.move(Due)
		}
		return nil
	})
}

// recall cancels what was made of a reply's calls if meanwhile somebody stopped the run or closed the conversation: they cancelled what they
// found, and may not have found all.
func (t *turn) recall(ctx context.Context) error {
	now, err := t.s.Get(ctx, Viewer{}, t.id)
	if err != nil || !now.Stopping && now.Status != Ended {
		return err
	}
	return t.s.cancelCalls(ctx, t.id)
}

// readReply is the reply whose calls the model was not told of yet.
func (t *turn) readReply(ctx context.Context) (*Reply, error) {
	list, err := t.s.entries(ctx, t.id, `seq = $2`, t.loop.reply)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].Assistant == nil {
		return nil, fmt.Errorf("conversation %s: entry %d is no reply", t.id, t.loop.reply)
	}
	return list[0].Assistant, nil
}

// submitAll hands the calls in, in the model's order, and returns those that became none after all, with the reason. Each has
// its id since the reply was written: one that was handed in before is the same call.
func (t *turn) submitAll(ctx context.Context, reply *Reply) (map[uuid.UUID]string, error) {
	var ids []uuid.UUID
	for i := range reply.Calls {
		if reply.Calls[i].ID != uuid.Nil {
			ids = append(ids, reply.Calls[i].ID)
		}
	}
	known, err := t.s.Calls.Known(ctx, ids)
	if err != nil {
		return nil, err
	}
	refused := map[uuid.UUID]string{}
	n := 0
	for i := range reply.Parts {
		wish := reply.Parts[i].Call
		if wish == nil {
			continue
		}
		made := &reply.Calls[n]
		n++
		if _, before := known[made.ID]; before || made.ID == uuid.Nil {
			continue
		}
		now, err := t.s.Get(ctx, Viewer{}, t.id)
		if err != nil || now.Status == Ended {
			return nil, errors.Join(err, errOver)
		}
		why := "It was stopped before this call was made. The call was not made."
		if !now.Stopping {
			if why, err = t.submit(ctx, made.ID, wish); err != nil {
				return nil, err
			}
		}
		if why != "" {
			refused[made.ID] = why
		}
	}
	return refused, nil
}

// submit hands one call in. It returns why there is none, when it cannot be one.
func (t *turn) submit(ctx context.Context, id uuid.UUID, wish *model.ToolCall) (string, error) {
	const gone = "The agent may not use this tool any more. The call was not made."
	entry, offered := t.offered(wish.Name)
	if !offered {
		return gone, nil
	}
	clean, err := call.CleanArguments([]byte(arguments(wish)))
	if err != nil {
		return "", err
	}
	// From here on the call goes its way, whatever becomes of this turn.
	_, err = t.s.Calls.Submit(context.WithoutCancel(ctx), call.Submission{
		ID: id, Agent: t.agent, PrincipalID: t.loop.PrincipalID, ConversationID: t.id, Entry: entry, Arguments: clean,
		Caller: call.Caller{Depth: t.loop.Depth + 1},
	})
	refused, full := (*file.AttachmentError)(nil), (*call.PendingError)(nil)
	switch {
	case errors.As(err, &full):
		return "The call was not made: " + full.Error() + ".", nil
	case errors.As(err, &refused):
		return "A file cannot be attached, so the call was not made: " + plain.Visible(refused.Error(), maxCause), nil
	case errors.Is(err, agent.ErrNotFound):
		return gone, nil
	case err != nil:
		return "", fmt.Errorf("make call %s: %w", id, err)
	}
	return "", nil
}

package call

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// DefaultIdempotencyTTL is the default of [Config.IdempotencyTTL].
const DefaultIdempotencyTTL = 24 * time.Hour

// ErrKeyReused means that the idempotency key was used with other arguments.
var ErrKeyReused = errors.New("the idempotency key was used for a call with other arguments")

// attachableSQL is an SQL condition that holds while other calls may attach to a call. With an idempotency key it holds for the
// key's lifetime, else until the outcome is delivered, or for an hour after the end.
const attachableSQL = `(finished_at IS NULL OR coalesce(keyed_until, finished_at + interval '1 hour') > holdpoint_now())`

// errAttachedGone means that the call to attach to was delivered in the meantime.
var errAttachedGone = errors.New("the earlier call was delivered in between")

// attachKeySize is enough against accidental collisions. A deliberate one concerns only the agent's own calls.
const attachKeySize = 16

// attachKey returns a hash that is the same for two submissions of the same call. It covers agent, principal, skill and tool, and the
// idempotency key or else the argument bytes. Nil: the submission has an id instead.
func attachKey(sub *Submission) []byte {
	if sub.ID != uuid.Nil && sub.IdempotencyKey == "" {
		return nil
	}
	c := &Call{
		AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID, SkillID: sub.Entry.SkillID,
		Tool: sub.Entry.Tool.Name, Arguments: sub.madeArguments(),
	}
	if sub.IdempotencyKey != "" {
		return hashParts(append(c.attachScope(), []byte("key"), []byte(sub.IdempotencyKey))...)
	}
	if sub.Gate != nil {
		parts := append(c.attachScope(), c.Arguments, []byte(sub.Gate.Directory))
		if binding, err := sub.Gate.encodeBinding(); err == nil && sub.Gate.bindsMore() { // texts and numbers: it cannot fail
			parts = append(parts, binding)
		}
		return hashParts(parts...)
	}
	return callKey(c)
}

// callKey returns the attach key of a call without an idempotency key.
func callKey(c *Call) []byte { return hashParts(append(c.attachScope(), c.AgentArguments())...) }

func (c *Call) attachScope() [][]byte {
	return [][]byte{c.AgentID[:], c.PrincipalID[:], c.SkillID[:], []byte(c.Tool)}
}

// hashParts hashes all parts with their lengths.
func hashParts(parts ...[]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)[:attachKeySize]
}

// keyedSum returns the hash of the arguments to which the idempotency key of a submission is bound. Nil: there is no key.
func keyedSum(sub *Submission) []byte {
	if sub.IdempotencyKey == "" {
		return nil
	}
	return hashParts(sub.madeArguments())
}

// madeArguments returns the client's arguments.
func (sub *Submission) madeArguments() json.RawMessage {
	if sub.Made != nil {
		return sub.Made
	}
	return sub.Arguments
}

// earlierCall is a recorded call that a submission may repeat.
type earlierCall struct {
	ticket Ticket
	key    []byte
	sum    []byte    // of the arguments of its idempotency key
	stale  bool      // it is no longer attachable
	sender uuid.UUID // the instance that claimed it
}

// attachItems gives items that were not inserted the ticket of the recorded call: an equal one that was made earlier, or the same one
// from an attempt whose commit was not confirmed.
func attachItems(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
	if len(items) == 0 {
		return nil
	}
	found, err := readEarlier(ctx, tx, items)
	if err != nil {
		return err
	}
	byID, byKey := map[uuid.UUID]earlierCall{}, map[string]earlierCall{}
	for _, e := range found {
		byID[e.ticket.ID] = e
		if e.key != nil {
			byKey[string(e.key)] = e
		}
	}
	var stale []uuid.UUID
	for _, item := range items {
		if own, ok := byID[item.call.ID]; ok {
			item.ticket = own.ticket
			item.ticket.Attached = own.sender != item.call.claimedBy // from an attempt of another process
			continue
		}
		e, ok := byKey[string(item.attachKey)]
		switch {
		case !ok:
			item.err = errAttachedGone
		case e.stale:
			stale = append(stale, e.ticket.ID)
			item.err = errAttachedGone
		case item.keyedSum != nil && string(item.keyedSum) != string(e.sum):
			item.err = ErrKeyReused
		default:
			item.ticket = e.ticket
			item.ticket.Attached = true
		}
	}
	if len(stale) > 0 {
		if _, err := tx.Exec(ctx, `UPDATE calls SET attach_key = NULL, keyed_until = NULL WHERE id = ANY($1)`, stale); err != nil {
			return fmt.Errorf("release idempotency keys: %w", err)
		}
	}
	return nil
}

// findRepeated returns the ticket of the call that a submission repeats. If there is none, its Attached is false.
func (s *Service) findRepeated(ctx context.Context, sub *Submission) (Ticket, error) {
	ticket := Ticket{Attached: true}
	err := s.Pool.QueryRow(ctx, `SELECT id, status, gated FROM calls
		WHERE attach_key = $1 AND ($2::bytea IS NULL OR keyed_sum = $2)
			AND `+attachableSQL,
		attachKey(sub), keyedSum(sub)).Scan(&ticket.ID, &ticket.Status, &ticket.Gated)
	if errors.Is(err, pgx.ErrNoRows) {
		return Ticket{}, nil
	}
	if err != nil {
		return Ticket{}, fmt.Errorf("find a call to attach to: %w", err)
	}
	return ticket, nil
}

func readEarlier(ctx context.Context, tx pgx.Tx, items []*intakeItem) ([]earlierCall, error) {
	ids, keys := make([]uuid.UUID, len(items)), make([][]byte, len(items))
	for i, item := range items {
		ids[i], keys[i] = item.call.ID, item.attachKey
	}
	rows, _ := tx.Query(ctx, `SELECT id, status, gated, attach_key, keyed_sum,
			NOT `+attachableSQL+`, claimed_by
		FROM calls WHERE id = ANY($1) OR attach_key = ANY($2)`, ids, keys)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e earlierCall, err error) {
		var sender *uuid.UUID
		err = row.Scan(&e.ticket.ID, &e.ticket.Status, &e.ticket.Gated, &e.key, &e.sum, &e.stale, &sender)
		e.sender = postgres.OrNil(sender)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("find calls to attach to: %w", err)
	}
	return found, nil
}

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
)

// DefaultIdempotencyTTL is for how long the outcome of a call with an idempotency key is given to
// those who repeat it.
const DefaultIdempotencyTTL = 24 * time.Hour

// ErrKeyReused says that the idempotency key belongs to a call with other arguments.
var ErrKeyReused = errors.New("the idempotency key was used for a call with other arguments")

// attachableSQL is SQL: whether calls may still attach to this one. With an idempotency key they may until that is
// out of date; without one until its outcome was delivered, or an hour after its end if nobody asked for that.
const attachableSQL = `(finished_at IS NULL OR coalesce(keyed_until, finished_at + interval '1 hour') > holdpoint_now())`

// errAttachedGone: the call to attach to is none any more that one attaches to.
var errAttachedGone = errors.New("the earlier call was delivered in between")

// attachKeySize is enough against chance; an agent that makes two of its own calls collide gets the first for both.
const attachKeySize = 16

// attachKey is what two submissions of the same call have in common: with an idempotency key that,
// else the argument bytes. Who makes it and what of have a say in both. Nil: it has an id, which is enough.
func attachKey(sub *Submission) []byte {
	if sub.ID != uuid.Nil && sub.IdempotencyKey == "" {
		return nil
	}
	c := &Call{
		AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID, SkillID: sub.Entry.SkillID,
		Tool: sub.Entry.Tool.Name, Arguments: sub.made(),
	}
	if sub.IdempotencyKey != "" {
		return digest(append(c.scope(), []byte("key"), []byte(sub.IdempotencyKey))...)
	}
	return callKey(c)
}

// callKey is the attach key of a call without an idempotency key.
func callKey(c *Call) []byte { return digest(append(c.scope(), c.Made())...) }

func (c *Call) scope() [][]byte {
	return [][]byte{c.AgentID[:], c.PrincipalID[:], c.SkillID[:], []byte(c.Tool)}
}

// digest is of all parts, each with its length.
func digest(parts ...[]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)[:attachKeySize]
}

// keyed binds an idempotency key to the arguments that it was first used with.
type keyed struct {
	sum []byte // of the arguments, nil: there is no key
	ttl time.Duration
}

func (s *Service) keyed(sub *Submission) keyed {
	if sub.IdempotencyKey == "" {
		return keyed{}
	}
	return keyed{digest(sub.made()), s.IdempotencyTTL}
}

// microseconds is nil without a key.
func (k keyed) microseconds() *int64 {
	if k.sum == nil {
		return nil
	}
	us := k.ttl.Microseconds()
	return &us
}

// made are the arguments as the client gave them.
func (sub *Submission) made() json.RawMessage {
	if sub.Made != nil {
		return sub.Made
	}
	return sub.Arguments
}

// earlier is a call that was there before another was submitted.
type earlier struct {
	ticket Ticket
	key    []byte
	sum    []byte    // of the arguments that its idempotency key is for
	stale  bool      // nobody attaches to it any more
	sender uuid.UUID // the instance that claimed it
}

// attach finds, for items that were not inserted, the call that was there
// before: the same call made earlier, or this very one from an attempt whose commit was not confirmed.
func attach(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
	if len(items) == 0 {
		return nil
	}
	found, err := readEarlier(ctx, tx, items)
	if err != nil {
		return err
	}
	byID, byKey := map[uuid.UUID]earlier{}, map[string]earlier{}
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
			item.ticket.Attached = own.sender != item.call.claimedBy // an earlier attempt of another process
			continue
		}
		e, ok := byKey[string(item.attachKey)]
		switch {
		case !ok:
			item.err = errAttachedGone
		case e.stale:
			stale = append(stale, e.ticket.ID)
			item.err = errAttachedGone
		case item.keyed.sum != nil && string(item.keyed.sum) != string(e.sum):
			item.err = ErrKeyReused
		default:
			item.ticket = e.ticket
			item.ticket.Attached = true
		}
	}
	return releaseKeys(ctx, tx, stale)
}

// repeated finds the call that one attaches to, without making one. Not attached: there is none.
func (s *Service) repeated(ctx context.Context, sub *Submission) (Ticket, error) {
	ticket := Ticket{Attached: true}
	err := s.Pool.QueryRow(ctx, `SELECT id, status, gated FROM calls
		WHERE attach_key = $1 AND ($2::bytea IS NULL OR keyed_sum = $2)
			AND `+attachableSQL,
		attachKey(sub), s.keyed(sub).sum).Scan(&ticket.ID, &ticket.Status, &ticket.Gated)
	if errors.Is(err, pgx.ErrNoRows) {
		return Ticket{}, nil
	}
	if err != nil {
		return Ticket{}, fmt.Errorf("find a call to attach to: %w", err)
	}
	return ticket, nil
}

func readEarlier(ctx context.Context, tx pgx.Tx, items []*intakeItem) ([]earlier, error) {
	ids, keys := make([]uuid.UUID, len(items)), make([][]byte, len(items))
	for i, item := range items {
		ids[i], keys[i] = item.call.ID, item.attachKey
	}
	rows, err := tx.Query(ctx, `SELECT id, status, gated, attach_key, keyed_sum,
			NOT `+attachableSQL+`, claimed_by
		FROM calls WHERE id = ANY($1) OR attach_key = ANY($2)`, ids, keys)
	if err != nil {
		return nil, fmt.Errorf("find calls to attach to: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e earlier, err error) {
		var sender *uuid.UUID
		err = row.Scan(&e.ticket.ID, &e.ticket.Status, &e.ticket.Gated, &e.key, &e.sum, &e.stale, &sender)
		e.sender = deref(sender)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("find calls to attach to: %w", err)
	}
	return found, nil
}

// releaseKeys frees the keys of calls that nobody attaches to any more.
func releaseKeys(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE calls SET attach_key = NULL, keyed_until = NULL WHERE id = ANY($1)`, ids); err != nil {
		return fmt.Errorf("release idempotency keys: %w", err)
	}
	return nil
}

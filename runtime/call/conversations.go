package call

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Tallied is how many calls of a conversation are counted, the latest ones.
const Tallied = 1000

// Tally says how the calls of a conversation stand.
type Tally struct {
	Counts map[Status]int
	Calls  int       // in all; [Tallied] means that many or more
	Last   time.Time // when the last one was made
}

// Tallies counts the calls of conversations. Those without calls are left out.
func (s *Service) Tallies(ctx context.Context, conversations []uuid.UUID) (map[uuid.UUID]Tally, error) {
	rows, err := s.Pool.Query(ctx, `SELECT conversation.id, latest.status, count(*), max(latest.created_at)
		FROM unnest($1::uuid[]) AS conversation(id), LATERAL (
			SELECT status, created_at FROM calls WHERE conversation_id = conversation.id ORDER BY id DESC LIMIT $2
		) AS latest GROUP BY 1, 2`, conversations, Tallied)
	if err != nil {
		return nil, fmt.Errorf("count calls of conversations: %w", err)
	}
	tallies := make(map[uuid.UUID]Tally, len(conversations))
	var id uuid.UUID
	var status Status
	var n int
	var last time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &n, &last}, func() error {
		t := tallies[id]
		if t.Counts == nil {
			t.Counts = map[Status]int{}
		}
		t.Counts[status] = n
		t.Calls += n
		if last.After(t.Last) {
			t.Last = last
		}
		tallies[id] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count calls of conversations: %w", err)
	}
	return tallies, nil
}

const (
	liveWindow  = 200  // calls that wait: more of them are not looked at
	recentCalls = 2000 // in which calls under way are looked for
)

// LiveConversations are those with a call that waits for a decision or a connection, or is under way among the recent
// calls; the one with the latest such call first.
func (s *Service) LiveConversations(ctx context.Context) ([]uuid.UUID, error) {
	waiting, err := approval.Queue(ctx, s.Pool, approval.QueueFilter{Limit: liveWindow})
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(waiting))
	for i := range waiting {
		ids[i] = waiting[i].CallID
	}
	rows, err := s.Pool.Query(ctx, `SELECT conversation_id FROM (
			SELECT id, conversation_id, status FROM (SELECT id, conversation_id, status FROM calls ORDER BY id DESC LIMIT $2) AS recent
			UNION ALL SELECT id, conversation_id, status FROM calls WHERE id = ANY($1)
			UNION ALL SELECT id, conversation_id, status FROM calls
				WHERE id IN (SELECT call_id FROM call_connections WHERE ended_at IS NULL LIMIT $3)
		) AS c WHERE conversation_id IS NOT NULL AND status IN ('needs_connection', 'parked', 'approved', 'executing')
		GROUP BY conversation_id ORDER BY max(id::text) DESC`, ids, recentCalls, liveWindow)
	if err != nil {
		return nil, fmt.Errorf("find live conversations: %w", err)
	}
	live, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find live conversations: %w", err)
	}
	return live, nil
}

// ConversationState differs when the latest calls of a conversation do, in what they are or how they stand. It reads
// no arguments: it is cheap enough to be asked every few seconds.
func (s *Service) ConversationState(ctx context.Context, conversation, before uuid.UUID, limit int) (string, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, status, resolution IS NOT NULL, late IS NOT NULL FROM calls
		WHERE conversation_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
		conversation, postgres.OrNull(before), limit)
	if err != nil {
		return "", fmt.Errorf("read state of conversation %s: %w", conversation, err)
	}
	sum := fnv.New64a()
	var parked []uuid.UUID
	var id uuid.UUID
	var status Status
	var resolved, late bool
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &resolved, &late}, func() error {
		fmt.Fprint(sum, id, status, resolved, late)
		if status == Parked {
			parked = append(parked, id)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read state of conversation %s: %w", conversation, err)
	}
	approvals, err := approval.Of(ctx, s.Pool, parked...)
	if err != nil {
		return "", err
	}
	slices.SortFunc(approvals, func(a, b approval.Approval) int { return bytes.Compare(a.CallID[:], b.CallID[:]) })
	for i := range approvals {
		fmt.Fprint(sum, approvals[i].Status, approvals[i].Deadline.UnixMicro())
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// ApprovalsOf returns the approvals of those calls that needed one, by the call's id.
func (s *Service) ApprovalsOf(ctx context.Context, calls []Call) (map[uuid.UUID]approval.Approval, error) {
	var gated []uuid.UUID
	for i := range calls {
		if calls[i].Gated {
			gated = append(gated, calls[i].ID)
		}
	}
	byID := make(map[uuid.UUID]approval.Approval, len(gated))
	if len(gated) == 0 {
		return byID, nil
	}
	approvals, err := approval.Of(ctx, s.Pool, gated...)
	if err != nil {
		return nil, err
	}
	for _, a := range approvals {
		byID[a.CallID] = a
	}
	return byID, nil
}

// Titles says of calls which tool of which skill they are of.
func (s *Service) Titles(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, skill_id, tool FROM calls WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read titles of calls: %w", err)
	}
	type title struct {
		ID, SkillID uuid.UUID
		Tool        string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[title])
	if err != nil {
		return nil, fmt.Errorf("read titles of calls: %w", err)
	}
	skills := make([]uuid.UUID, len(found))
	for i := range found {
		skills[i] = found[i].SkillID
	}
	names, err := s.Agents.Names(ctx, skills)
	if err != nil {
		return nil, err
	}
	titles := make(map[uuid.UUID]string, len(found))
	for _, t := range found {
		titles[t.ID] = names[t.SkillID] + ": " + t.Tool
	}
	return titles, nil
}

package history

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
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Tallied bounds the calls of a conversation that are counted, from the latest on.
const Tallied = 1000

// Tally counts the calls of a conversation by status.
type Tally struct {
	Counts map[call.Status]int
	Calls  int       // of any status; [Tallied] stands for that many or more
	Last   time.Time // creation of the latest call
}

// TallyConversations counts the calls of conversations. It omits conversations without calls.
func (s *Service) TallyConversations(ctx context.Context, conversations []uuid.UUID) (map[uuid.UUID]Tally, error) {
	rows, _ := s.calls.Pool.Query(ctx, `SELECT conversation.id, latest.status, count(*), max(latest.created_at)
		FROM unnest($1::uuid[]) AS conversation(id), LATERAL (
			SELECT status, created_at FROM calls WHERE conversation_id = conversation.id ORDER BY id DESC LIMIT $2
		) AS latest GROUP BY 1, 2`, conversations, Tallied)
	tallies := make(map[uuid.UUID]Tally, len(conversations))
	var id uuid.UUID
	var status call.Status
	var n int
	var last time.Time
	_, err := pgx.ForEachRow(rows, []any{&id, &status, &n, &last}, func() error {
		t := tallies[id]
		if t.Counts == nil {
			t.Counts = map[call.Status]int{}
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
	liveWindow  = 200  // waiting calls that are read
	recentCalls = 2000 // recent calls that are read
)

// ListLiveConversations returns the conversations with a call that waits for people, or with a recent call that is approved or executing,
// by the latest such call.
func (s *Service) ListLiveConversations(ctx context.Context) ([]uuid.UUID, error) {
	waiting, err := approval.Queue(ctx, s.calls.Pool, approval.QueueFilter{Limit: liveWindow})
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(waiting))
	for i := range waiting {
		ids[i] = waiting[i].CallID
	}
	rows, _ := s.calls.Pool.Query(ctx, `SELECT conversation_id FROM (
			SELECT id, conversation_id, status FROM (SELECT id, conversation_id, status FROM calls ORDER BY id DESC LIMIT $2) AS recent
			UNION ALL SELECT id, conversation_id, status FROM calls WHERE id = ANY($1)
			UNION ALL SELECT id, conversation_id, status FROM calls
				WHERE id IN (SELECT call_id FROM call_connections WHERE ended_at IS NULL LIMIT $3)
		) AS c WHERE conversation_id IS NOT NULL AND status IN ('needs_connection', 'parked', 'approved', 'executing')
		GROUP BY conversation_id ORDER BY max(id::text) DESC`, ids, recentCalls, liveWindow)
	live, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find live conversations: %w", err)
	}
	return live, nil
}

// ConversationState returns a hash that changes when the latest calls of a conversation change. It is cheap enough for polling every
// few seconds.
func (s *Service) ConversationState(ctx context.Context, conversation, before uuid.UUID, limit int) (string, error) {
	rows, _ := s.calls.Pool.Query(ctx, `SELECT id, status, resolution IS NOT NULL, late IS NOT NULL FROM calls
		WHERE conversation_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
		conversation, postgres.OrNull(before), limit)
	sum := fnv.New64a()
	var parked []uuid.UUID
	var id uuid.UUID
	var status call.Status
	var resolved, late bool
	_, err := pgx.ForEachRow(rows, []any{&id, &status, &resolved, &late}, func() error {
		fmt.Fprint(sum, id, status, resolved, late)
		if status == call.Parked {
			parked = append(parked, id)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read state of conversation %s: %w", conversation, err)
	}
	approvals, err := approval.ListByCall(ctx, s.calls.Pool, parked...)
	if err != nil {
		return "", err
	}
	slices.SortFunc(approvals, func(a, b approval.Approval) int { return bytes.Compare(a.CallID[:], b.CallID[:]) })
	for i := range approvals {
		fmt.Fprint(sum, approvals[i].Status, approvals[i].Deadline.UnixMicro())
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// ReadTitles returns the skill, the tool and the agent of calls as a text, such as "files: write (billing)".
func (s *Service) ReadTitles(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, _ := s.calls.Pool.Query(ctx, `SELECT id, skill_id, agent_id, tool FROM calls WHERE id = ANY($1)`, ids)
	type title struct {
		ID, SkillID, AgentID uuid.UUID
		Tool                 string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[title])
	if err != nil {
		return nil, fmt.Errorf("read titles of calls: %w", err)
	}
	parties := make([]uuid.UUID, 0, 2*len(found))
	for i := range found {
		parties = append(parties, found[i].SkillID, found[i].AgentID)
	}
	names, err := s.calls.Agents.Names(ctx, parties)
	if err != nil {
		return nil, err
	}
	titles := make(map[uuid.UUID]string, len(found))
	for _, t := range found {
		titles[t.ID] = names[t.SkillID] + ": " + t.Tool + " (" + names[t.AgentID] + ")"
	}
	return titles, nil
}

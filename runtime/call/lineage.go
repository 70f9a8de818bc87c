package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// lineage follows the database's timeline. On a new one, the database may have lost its last commits, among them records of calls that
// were sent. Each instance then recalls the calls that it sent, and its next heartbeat says so. Until all other living instances have
// done so, no keyed or gated call is recorded and none is sent.
type lineage struct {
	mu       sync.Mutex
	recalled postgres.Timeline // this instance recalled its calls there
	settled  postgres.Timeline // all others have recalled theirs, too
}

// errUnsettled means that other instances have not yet recalled what they sent.
var errUnsettled = errors.New("the database was replaced; waiting for the other processes to recall the calls that they sent")

// firstTimeline is that of a new cluster.
const firstTimeline postgres.Timeline = 1

// begin notes the timeline on which this instance starts. On a later one than the first, others may yet have to recall their calls.
func (l *lineage) begin(timeline postgres.Timeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recalled, l.settled = timeline, min(timeline, firstTimeline)
}

func (l *lineage) needsRecall(timeline postgres.Timeline) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return timeline > l.recalled
}

// noteRecall notes that this instance recalled its calls on a timeline.
func (l *lineage) noteRecall(timeline postgres.Timeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recalled = timeline
}

// isRecalledByAll reports whether all instances that live have recalled their calls on a timeline that is not settled.
func (l *lineage) isRecalledByAll(timeline postgres.Timeline, peers map[uuid.UUID]peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled >= timeline {
		return false
	}
	for _, p := range peers {
		if p.recalled < timeline && p.unchanged < goneBeats {
			return false
		}
	}
	return true
}

// settle notes that all instances have recalled their calls on a timeline.
func (l *lineage) settle(timeline postgres.Timeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = max(l.settled, timeline)
}

// isSettled reports whether no other instance may still recall a call on the present timeline.
func (s *Service) isSettled() bool {
	s.lineage.mu.Lock()
	defer s.lineage.mu.Unlock()
	return s.lineage.settled >= s.Timeline()
}

// maxLost is more than a standby may be behind. A missing call that was sent earlier was deleted by its age, which is at least a day.
const maxLost = 12 * time.Hour

const recalledMessage = "this call was sent, and then the database lost its last commits; the call may have been executed"

// recallSent compares the calls that this instance sent with a database that may have lost commits. A call that is missing is recorded
// again, so that a repeat attaches to it. Calls that would be sent again become unknown, also if another instance has claimed them.
func (s *Service) recallSent(ctx context.Context, conn *pgx.Conn) error {
	ids, recent := s.flights.listSent()
	type sentCall struct {
		ID     uuid.UUID
		Status *Status // nil: it is missing
	}
	lost, err := postgres.Collect(ctx, conn, pgx.RowToStructByPos[sentCall], `SELECT s.id, c.status FROM unnest($1::uuid[]) AS s(id)
		LEFT JOIN calls c USING (id) WHERE c.id IS NULL OR c.status IN ('needs_connection', 'parked', 'approved') OR c.status = 'executing' AND c.claimed_by <> $2`,
		ids, s.Instance)
	if err != nil {
		return fmt.Errorf("recall sent calls: %w", err)
	}
	var moves []*move
	missing := 0
	for _, l := range lost {
		var m *move
		var err error
		switch c := recent[l.ID]; {
		case l.Status != nil:
			m, err = s.recallCall(ctx, conn, l.ID, *l.Status)
		case c != nil && elapsedTime(s.Now(), c.sentAt) < maxLost:
			missing++
			m, err = s.recordAgain(ctx, conn, c)
		default:
			missing++
		}
		switch {
		case err == nil:
			moves = append(moves, m)
		case sqlClass(err) == "23": // for example its agent is missing, too
			s.Logger.Error("a call was sent, and the database has lost it", "call", l.ID, "error", err)
		default:
			return fmt.Errorf("recall call %s: %w", l.ID, err)
		}
	}
	timeline := postgres.TimelineOf(conn)
	s.Logger.Warn("the database is on a new timeline", "timeline", timeline, "sent_calls_lost", len(lost), "of_these_missing", missing)
	s.lineage.noteRecall(timeline)
	s.announceMoves(ctx, moves...)
	return nil
}

// recallCall makes a call unknown that waits for people, is approved or is claimed by another instance, although it was sent. It fails if
// the call moves meanwhile: another instance may be about to send it, and the next heartbeat finds it in its new status.
func (s *Service) recallCall(ctx context.Context, conn *pgx.Conn, id uuid.UUID, status Status) (*move, error) {
	m := &move{event: onLose, id: id, outcome: recalledOutcome()}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if status == NeedsConnection {
			m.event = onForget
		}
		if status == Parked {
			a, _, err := approval.Lock(ctx, tx, id)
			if err != nil {
				return err
			}
			if a.Status == approval.Pending { // else it was decided meanwhile, and may be approved
				m.event, m.settled = onRecall, &a
				m.settlement = &approval.Settlement{Status: approval.Cancelled, Note: recalledMessage}
			}
		}
		return s.moveInTx(ctx, tx, m)
	})
	if err == nil && !m.made {
		err = fmt.Errorf("%w: it moved meanwhile", ErrState)
	}
	return m, err
}

// recordAgain inserts a sent call that the database has lost. If its answer is still awaited, its outcome follows.
func (s *Service) recordAgain(ctx context.Context, conn *pgx.Conn, c *Call) (*move, error) {
	again := *c
	again.Status, again.claimedBy, again.Code, again.Message = Executing, s.Instance, "", ""
	item := &intakeItem{call: &again, attachKey: c.attachKey, keyedSum: c.keyedSum}
	m := &move{event: onLose, id: c.ID, agentID: c.AgentID, outcome: recalledOutcome()}
	insert := func() error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			inserted, err := readIDs(ctx, tx, insertCallsSQL+` ON CONFLICT DO NOTHING RETURNING id`, s.callColumns([]*intakeItem{item})...)
			if err != nil || len(inserted) == 0 {
				return err
			}
			if s.flights.isSending(c.ID) {
				return audit.Write(ctx, tx, audit.Event{Actor: audit.System(), Action: audit.CallExecuting, Subject: c.ID})
			}
			return s.moveInTx(ctx, tx, m)
		})
	}
	err := insert()
	if sqlClass(err) == "23" && again.ConversationID != uuid.Nil { // the conversation is missing, too
		again.ConversationID = uuid.Nil
		err = insert()
	}
	return m, err
}

func recalledOutcome() outcome {
	return outcome{status: Unknown, code: CodeOutcomeUnknown, effect: tool.EffectPossible, message: recalledMessage}
}

// listSent returns the ids of the remembered calls that this process sent, and the last of the calls themselves.
func (f *flights) listSent() ([]uuid.UUID, map[uuid.UUID]*Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := slices.AppendSeq(slices.Collect(maps.Keys(f.gated.ids)), maps.Keys(f.direct.ids))
	return ids, maps.Clone(f.recent.calls)
}

// recentCalls has the calls that were sent last, so that they can be recorded again.
type recentCalls struct {
	calls  map[uuid.UUID]*Call
	oldest []uuid.UUID
	bytes  int
}

const (
	maxRecent      = 4096
	maxRecentBytes = 32 << 20
)

func (r *recentCalls) add(c *Call) {
	if r.calls == nil {
		r.calls = map[uuid.UUID]*Call{}
	}
	if _, ok := r.calls[c.ID]; ok {
		return
	}
	r.calls[c.ID], r.bytes = c, r.bytes+c.size()
	r.oldest = append(r.oldest, c.ID)
	for len(r.oldest) > maxRecent || r.bytes > maxRecentBytes && len(r.oldest) > 1 {
		r.bytes -= r.calls[r.oldest[0]].size()
		delete(r.calls, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
}

// size returns the number of bytes that a call keeps in memory, about.
func (c *Call) size() int {
	const fixed = 1 << 10
	return fixed + len(c.Arguments) + len(c.Submitted) + len(c.unfrozen) + len(c.request)
}

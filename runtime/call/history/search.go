package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Filter selects calls. Zero fields select all; a list that is not nil and empty selects none.
type Filter struct {
	Viewer       call.Viewer
	Agents       []uuid.UUID // of any of these
	Skills       []uuid.UUID
	Tool         string      // its name in the skill, or its name for agents
	People       []uuid.UUID // principals or deciders
	Statuses     []call.Status
	From, To     time.Time // creation in [From, To)
	Conversation uuid.UUID
	Text         string    // in the arguments; see [Service.Search]
	Before       uuid.UUID // the cursor: only older calls
	Limit        int       // at most 200; zero: 50
}

// Found is a page of calls, newest first.
type Found struct {
	Calls []call.Call
	Next  uuid.UUID // the cursor of the next page; uuid.Nil: there is none
	// Stopped means that the search reached its bounds. The next page continues at Next.
	Stopped bool
}

// ErrTooBroad means that a search timed out.
var ErrTooBroad = errors.New("the search takes too long: narrow it, by time for example")

// The bounds of one search. The next page continues after them.
const (
	searchStatement = 10 * time.Second // timeout of a statement
	searchTime      = 3 * time.Second  // after which a search stops
	searchAtOnce    = 2                // searches at a time in a process, to leave connections to calls

	defaultLimit, maxLimit = 50, 200

	firstSpan = 2_000
	maxSpan   = 20_000

	// MaxSearched bounds the calls that a search reads.
	MaxSearched = 1_000_000
	// MaxTextSearched and MaxTextBytes bound the calls and the bytes that a search for a text reads.
	MaxTextSearched = 100_000
	MaxTextBytes    = 256 << 20
	spanBytes       = 64 << 20
)

// clockSlack bounds the difference between the time in a call's id and its creation time in the database.
const clockSlack = 24 * time.Hour

// Search returns the calls that a filter selects, newest first.
//
// A text matches the arguments as stored and with their escapes decoded, without regard to case: é and \u00e9 both match "\u00e9". If
// a reviewer edited the arguments, the agent's are searched too. Case is compared letter by letter; nothing else is folded.
//
// A search reads a bounded number of calls, so a page may be short or empty and still have a next one.
func (s *Service) Search(ctx context.Context, f Filter) (Found, error) {
	if f.Limit = min(f.Limit, maxLimit); f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	if !f.limitToViewer() {
		return Found{}, nil
	}
	if f.needsScan() {
		select {
		case s.searches <- struct{}{}:
			defer func() { <-s.searches }()
		case <-ctx.Done():
			return Found{}, ctx.Err()
		}
	}
	search := searcher{filter: f, text: newTextMatcher(f.Text), now: s.calls.Now}
	err := postgres.InTx(ctx, s.calls.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, searchStatement.Milliseconds())); err != nil {
			return err
		}
		search.tx = tx
		return search.findIDs(ctx)
	})
	if postgres.IsStatementTimeout(err) && ctx.Err() == nil {
		err = ErrTooBroad
	}
	var calls map[uuid.UUID]call.Call
	if err == nil {
		calls, err = s.calls.ListCalls(ctx, search.ids)
	}
	if err != nil {
		return Found{}, fmt.Errorf("search calls: %w", err)
	}
	found := Found{Next: search.next, Stopped: search.stopped}
	for _, id := range search.ids {
		if c, ok := calls[id]; ok {
			found.Calls = append(found.Calls, c)
		}
	}
	return found, nil
}

// limitToViewer limits a filter to the calls that its viewer may see. It reports whether the filter can select any.
func (f *Filter) limitToViewer() bool {
	if f.Viewer.AgentID != uuid.Nil {
		if f.Agents != nil && !slices.Contains(f.Agents, f.Viewer.AgentID) {
			return false
		}
		f.Agents = []uuid.UUID{f.Viewer.AgentID}
	}
	for _, ids := range [][]uuid.UUID{f.Agents, f.Skills, f.People} {
		if ids != nil && len(ids) == 0 {
			return false
		}
	}
	return f.Statuses == nil || len(f.Statuses) > 0
}

// needsScan reports whether the filter has conditions without an index.
func (f *Filter) needsScan() bool {
	return len(f.Skills) > 0 || f.Tool != "" || len(f.People) > 0 || len(f.Statuses) > 0 ||
		!f.From.IsZero() || !f.To.IsZero() || f.Text != "" || len(f.Agents) > 1
}

// searcher reads calls from the newest to the oldest, span by span.
type searcher struct {
	tx     pgx.Tx
	filter Filter
	text   *textMatcher // nil: any
	now    func() time.Time

	ids     []uuid.UUID // found
	next    uuid.UUID
	stopped bool
}

// findIDs finds the ids of a page of calls.
func (s *searcher) findIDs(ctx context.Context) error {
	before, lowest := s.filter.Before, uuid.Nil
	if !s.filter.To.IsZero() {
		if latest := call.FirstID(s.filter.To.Add(clockSlack)); before == uuid.Nil || bytes.Compare(latest[:], before[:]) < 0 {
			before = latest
		}
	}
	if !s.filter.From.IsZero() {
		lowest = call.FirstID(s.filter.From.Add(-clockSlack))
	}
	if !s.filter.needsScan() {
		return s.collectIDs(ctx, before, lowest)
	}
	most := int64(MaxSearched)
	if s.text != nil {
		most = MaxTextSearched
	}
	began, looked, read := s.now(), int64(0), int64(0)
	for size := int64(firstSpan); ; size = min(2*size, maxSpan) {
		next, err := s.measureSpan(ctx, before, lowest, min(size, most-looked))
		if err != nil || next.calls == 0 {
			return err
		}
		if err := s.collectIDs(ctx, before, next.lowest); err != nil || s.next != uuid.Nil {
			return err
		}
		before, looked, read = next.lowest, looked+next.calls, read+next.bytes
		if looked >= most || read >= MaxTextBytes || s.now().Sub(began) >= searchTime {
			s.next, s.stopped = before, true
			return nil
		}
	}
}

// span is a range of calls that one statement reads.
type span struct {
	lowest uuid.UUID // the oldest of them
	calls  int64
	bytes  int64 // of the arguments, if they are read
}

// measureSpan returns the next range of at most size calls, and of at most spanBytes of arguments.
func (s *searcher) measureSpan(ctx context.Context, before, lowest uuid.UUID, size int64) (span, error) {
	q := s.filter.indexConditions(before, lowest)
	length := "0::bigint"
	if s.text != nil {
		length = "octet_length(arguments)::bigint" // does not read them
	}
	var next span
	err := s.tx.QueryRow(ctx, `SELECT id, n, bytes FROM (
			SELECT id, row_number() OVER newest AS n, sum(length) OVER newest AS bytes
			FROM (SELECT id, `+length+` AS length FROM calls WHERE `+q.where()+` ORDER BY id DESC LIMIT `+q.arg(size)+`) AS c
			WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
		) AS measured WHERE n = 1 OR bytes <= `+q.arg(int64(spanBytes))+` ORDER BY id LIMIT 1`, q.args...).
		Scan(&next.lowest, &next.calls, &next.bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return span{}, nil
	}
	return next, err
}

// collectIDs adds the matching calls with ids in [lowest, before).
func (s *searcher) collectIDs(ctx context.Context, before, lowest uuid.UUID) error {
	q := s.filter.indexConditions(before, lowest)
	s.filter.addConditions(q)
	columns, limit := `id, arguments, submitted`, ""
	if s.text != nil {
		q.conditions = append(q.conditions, s.text.candidateSQL(q))
	} else {
		columns, limit = `id, NULL::bytea, NULL::bytea`, ` LIMIT `+q.arg(s.filter.Limit+1-len(s.ids))
	}
	rows, _ := s.tx.Query(ctx, `SELECT `+columns+` FROM calls WHERE `+q.where()+` ORDER BY id DESC`+limit, q.args...)
	var id uuid.UUID
	var arguments, submitted pgtype.DriverBytes // valid until the next row
	_, err := pgx.ForEachRow(rows, []any{&id, &arguments, &submitted}, func() error {
		switch {
		case s.next != uuid.Nil:
		case s.text != nil && !s.text.matches(arguments) && !s.text.matches(submitted):
		case len(s.ids) == s.filter.Limit:
			s.next = s.ids[len(s.ids)-1]
		default:
			s.ids = append(s.ids, id)
		}
		return nil
	})
	return err
}

// indexConditions returns the conditions that an index serves.
func (f *Filter) indexConditions(before, lowest uuid.UUID) *statement {
	q := &statement{}
	if before != uuid.Nil {
		q.and("id < ", before, "")
	}
	if lowest != uuid.Nil {
		q.and("id >= ", lowest, "")
	}
	if len(f.Agents) == 1 {
		q.and("agent_id = ", f.Agents[0], "")
	}
	if f.Conversation != uuid.Nil {
		q.and("conversation_id = ", f.Conversation, "")
	}
	if f.Viewer.AgentID != uuid.Nil { // other principals' calls do not count as read
		q.and("principal_id IS NOT DISTINCT FROM ", postgres.OrNull(f.Viewer.PrincipalID), "::uuid")
	}
	return q
}

// addConditions adds the other conditions, except for the text.
func (f *Filter) addConditions(q *statement) {
	if len(f.Agents) > 1 {
		q.and("agent_id = ANY(", f.Agents, ")")
	}
	if f.Skills != nil {
		q.and("skill_id = ANY(", f.Skills, ")")
	}
	if f.Tool != "" {
		tool := q.arg(f.Tool)
		q.conditions = append(q.conditions, "(tool = "+tool+" OR exposed_name = "+tool+")")
	}
	if f.People != nil {
		people := q.arg(f.People)
		q.conditions = append(q.conditions, "(principal_id = ANY("+people+") OR "+approval.DecidedBy("calls.id", people)+")")
	}
	if f.Statuses != nil {
		q.and("status = ANY(", f.Statuses, ")")
	}
	if !f.From.IsZero() {
		q.and("created_at >= ", f.From, "")
	}
	if !f.To.IsZero() {
		q.and("created_at < ", f.To, "")
	}
}

// statement is an SQL condition with its arguments.
type statement struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its placeholder.
func (q *statement) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

func (q *statement) and(before string, value any, after string) {
	q.conditions = append(q.conditions, before+q.arg(value)+after)
}

func (q *statement) where() string {
	if len(q.conditions) == 0 {
		return "true"
	}
	return strings.Join(q.conditions, " AND ")
}

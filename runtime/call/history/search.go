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
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
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
	Decisions    []approval.Status
	Risks        []agent.Risk // of the call's tool, by its present settings
	From, To     time.Time    // creation in [From, To)
	Conversation uuid.UUID
	Grant        uuid.UUID   // that let the call pass
	Text         string      // in the arguments or in a name; see [Service.Search]
	Named        []uuid.UUID // the agents, skills and people whose names contain Text
	HideSecrets  bool        // Text does not find the secrets in arguments, which pages hide
	Before       uuid.UUID   // the cursor: only older calls
	Limit        int         // at most 200; zero: 50

	past bool // a standby may be read; see [Service.ParseQuery]
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
// A text matches the names of the tool, the skill, the agent and the people of a call, and its arguments as stored and with their
// escapes decoded, without regard to case: é and \u00e9 both match "\u00e9". If a reviewer edited the arguments, the agent's are
// searched too. Case is compared letter by letter; nothing else is folded.
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
	search := searcher{service: s, reader: s.readerFor(&f), filter: f, text: newTextMatcher(f.Text), now: s.calls.Now, kinds: map[kind]kindFacts{}}
	err := search.findIDs(ctx)
	if postgres.IsStatementTimeout(err) && ctx.Err() == nil {
		err = ErrTooBroad
	}
	var calls map[uuid.UUID]call.Call
	if err == nil {
		calls, err = s.calls.ListCallsFrom(ctx, search.reader, search.ids)
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
	return (f.Statuses == nil || len(f.Statuses) > 0) && (f.Decisions == nil || len(f.Decisions) > 0) && (f.Risks == nil || len(f.Risks) > 0)
}

// needsScan reports whether the filter has conditions without an index.
func (f *Filter) needsScan() bool {
	return len(f.Skills) > 0 || f.Tool != "" || len(f.People) > 0 || len(f.Statuses) > 0 || len(f.Decisions) > 0 || len(f.Risks) > 0 ||
		f.Grant != uuid.Nil || !f.From.IsZero() || !f.To.IsZero() || f.Text != "" || len(f.Agents) > 1
}

// searcher reads calls from the newest to the oldest, span by span.
type searcher struct {
	service *Service
	reader  *postgres.Reader
	filter  Filter
	text    *textMatcher // nil: any
	now     func() time.Time
	kinds   map[kind]kindFacts

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
		return s.inTx(ctx, func(tx pgx.Tx) error { return s.collectIDs(ctx, tx, before, lowest, nil) })
	}
	most := int64(MaxSearched)
	if s.text != nil {
		most = MaxTextSearched
	}
	began, looked, read := s.now(), int64(0), int64(0)
	for size := int64(firstSpan); ; size = min(2*size, maxSpan) {
		next, err := s.readSpan(ctx, before, lowest, min(size, most-looked))
		if err != nil || next.calls == 0 || s.next != uuid.Nil {
			return err
		}
		before, looked, read = next.lowest, looked+next.calls, read+next.bytes
		if looked >= most || read >= MaxTextBytes || s.now().Sub(began) >= searchTime {
			s.next, s.stopped = before, true
			return nil
		}
	}
}

// inTx runs read with a time limit for each statement. If the standby fails, read runs again from the state before it.
func (s *searcher) inTx(ctx context.Context, read func(tx pgx.Tx) error) error {
	found := len(s.ids)
	return s.reader.InTx(ctx, func(tx pgx.Tx) error {
		s.ids, s.next = s.ids[:found], uuid.Nil
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, searchStatement.Milliseconds())); err != nil {
			return err
		}
		return read(tx)
	})
}

// readSpan adds the matching calls of the next range, which it returns. It reads the facts about their tools
// between two transactions, because none may wait for a second connection.
func (s *searcher) readSpan(ctx context.Context, before, lowest uuid.UUID, size int64) (next span, err error) {
	var present []kind
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if next, err = s.measureSpan(ctx, tx, before, lowest, size); err != nil || next.calls == 0 {
			return err
		}
		if s.needsKinds() {
			present, err = s.listKinds(ctx, tx, before, next.lowest)
			return err
		}
		return s.collectIDs(ctx, tx, before, next.lowest, nil)
	})
	if err != nil || next.calls == 0 || !s.needsKinds() {
		return next, err
	}
	if err := s.learnKinds(ctx, present); err != nil {
		return next, err
	}
	if s.filter.Risks != nil {
		present = slices.DeleteFunc(present, func(k kind) bool { return !slices.Contains(s.filter.Risks, s.kinds[k].risk) })
		if len(present) == 0 {
			return next, nil
		}
	}
	return next, s.inTx(ctx, func(tx pgx.Tx) error { return s.collectIDs(ctx, tx, before, next.lowest, present) })
}

// span is a range of calls that one statement reads.
type span struct {
	lowest uuid.UUID // the oldest of them
	calls  int64
	bytes  int64 // of the arguments, if they are read
}

// measureSpan returns the next range of at most size calls, and of at most spanBytes of arguments.
func (s *searcher) measureSpan(ctx context.Context, tx pgx.Tx, before, lowest uuid.UUID, size int64) (span, error) {
	q := s.filter.indexConditions(before, lowest)
	length := "0::bigint"
	if s.text != nil {
		length = "octet_length(arguments)::bigint" // does not read them
	}
	var next span
	err := tx.QueryRow(ctx, `SELECT id, n, bytes FROM (
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

// collectIDs adds the matching calls with ids in [lowest, before). kinds are those of the calls in it; nil: any.
func (s *searcher) collectIDs(ctx context.Context, tx pgx.Tx, before, lowest uuid.UUID, kinds []kind) error {
	q := s.filter.indexConditions(before, lowest)
	s.filter.addConditions(q)
	if s.filter.Risks != nil {
		q.andKinds(kinds)
	}
	columns, limit := `id, true, skill_id, tool, pin, NULL::bytea, NULL::bytea`, ""
	if s.text != nil {
		named := s.filter.namedSQL(q)
		columns = `id, ` + named + `, skill_id, tool, pin, arguments, submitted`
		q.conditions = append(q.conditions, "("+named+" OR "+s.text.candidateSQL(q)+")")
	} else {
		limit = ` LIMIT ` + q.arg(s.filter.Limit+1-len(s.ids))
	}
	rows, _ := tx.Query(ctx, `SELECT `+columns+` FROM calls WHERE `+q.where()+` ORDER BY id DESC`+limit, q.args...)
	var id uuid.UUID
	var named bool
	var of kind
	var pin, arguments, submitted pgtype.DriverBytes // valid until the next row
	_, err := pgx.ForEachRow(rows, []any{&id, &named, &of.skill, &of.tool, &pin, &arguments, &submitted}, func() error {
		copy(of.pin[:], pin)
		switch {
		case s.next != uuid.Nil:
		case !named && !s.matches(of, arguments) && !s.matches(of, submitted):
		case len(s.ids) == s.filter.Limit:
			s.next = s.ids[len(s.ids)-1]
		default:
			s.ids = append(s.ids, id)
		}
		return nil
	})
	return err
}

// matches reports whether arguments contain the text where readers see it.
func (s *searcher) matches(of kind, arguments []byte) bool {
	if !s.text.matches(arguments) {
		return false
	}
	return !s.filter.HideSecrets ||
		s.text.matches(s.kinds[of].secrets.Replace(arguments, func(secretfield.Field) string { return "" }))
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
	if f.Grant != uuid.Nil {
		q.and("grant_id = ", f.Grant, "")
	}
	if f.Statuses != nil {
		q.and("status = ANY(", f.Statuses, ")")
	}
	if f.Decisions != nil {
		q.conditions = append(q.conditions, approval.HasStatus("calls.id", q.arg(f.Decisions)))
	}
	if !f.From.IsZero() {
		q.and("created_at >= ", f.From, "")
	}
	if !f.To.IsZero() {
		q.and("created_at < ", f.To, "")
	}
}

// namedSQL returns an SQL condition for the calls whose names contain the text.
func (f *Filter) namedSQL(q *statement) string {
	text := q.arg(foldCase(f.Text))
	sql := "(strpos(lower(tool), " + text + ") > 0 OR strpos(lower(exposed_name), " + text + ") > 0"
	if len(f.Named) > 0 {
		ids := q.arg(f.Named)
		sql += " OR agent_id = ANY(" + ids + ") OR skill_id = ANY(" + ids + ")"
		if f.Viewer.AgentID == uuid.Nil {
			sql += " OR principal_id = ANY(" + ids + ") OR " + approval.DecidedBy("calls.id", ids)
		}
	}
	return sql + ")"
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

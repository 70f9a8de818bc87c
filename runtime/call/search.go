package call

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
)

// Filter selects calls. Zero fields select all; a list that is not nil and empty selects none.
type Filter struct {
	Viewer       Viewer
	Agents       []uuid.UUID // of any of these
	Skills       []uuid.UUID
	Tool         string      // by the skill's own name of it, or by the name that agents see
	People       []uuid.UUID // made on behalf of one of them, or decided by one
	Statuses     []Status
	From, To     time.Time // made at From or later, and before To
	Conversation uuid.UUID
	Text         string    // in the arguments: see [Service.Search]
	Before       uuid.UUID // only calls older than this one: the cursor
	Limit        int       // at most 200; zero: 50
}

// Found is a page of calls, newest first.
type Found struct {
	Calls []Call
	Next  uuid.UUID // the cursor of the next page; uuid.Nil: there is none
	// Stopped: the search looked at as many calls as it may at once, which are those down to Next. It
	// goes on from there.
	Stopped bool
}

// ErrSearchTooBroad means that the database was asked for longer than a search may take.
var ErrSearchTooBroad = errors.New("the search takes too long: narrow it, by time for example")

// How much one search may look at. What it did not reach is for the next one, which the cursor begins.
const (
	searchStatement = 10 * time.Second // of one statement: the safety net
	searchTime      = 3 * time.Second  // after which no further part is looked through
	searchAtOnce    = 2                // searches at a time in a process: the gate needs connections too

	firstSpan = 2_000
	maxSpan   = 20_000

	// MaxSearched is how many calls a search looks through before it stops.
	MaxSearched = 1_000_000
	// MaxTextSearched likewise, where their arguments are read; and MaxTextBytes is of how many bytes.
	MaxTextSearched = 100_000
	MaxTextBytes    = 256 << 20
	spanBytes       = 64 << 20
)

// clockSlack is how far the time in a call's id, which is its process's, may be from its creation by the database's clock.
const clockSlack = 24 * time.Hour

// Search returns the calls that a filter selects, newest first.
//
// A text is found, whatever its letters' case, in the arguments as they are stored and as they read once
// their escapes are undone: é is found in "\u00e9", and \u00e9 too. Arguments that a reviewer edited are
// looked through as the agent gave them as well. Case is compared letter by letter, and nothing else is folded.
//
// A search looks at a bounded number of calls, so a page may be short or empty and have a next one.
func (s *Service) Search(ctx context.Context, f Filter) (Found, error) {
	f.Limit = clampLimit(f.Limit)
	if !f.scope() {
		return Found{}, nil
	}
	if f.scans() {
		select {
		case s.searches <- struct{}{}:
			defer func() { <-s.searches }()
		case <-ctx.Done():
			return Found{}, ctx.Err()
		}
	}
	found := Found{}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, searchStatement.Milliseconds()))
		if err != nil {
			return err
		}
		search := searcher{tx: tx, filter: f, text: newTextMatcher(f.Text), now: s.Now}
		if err := search.run(ctx); err != nil {
			return err
		}
		found.Next, found.Stopped = search.next, search.stopped
		rows, err := tx.Query(ctx, `SELECT `+listColumns+` FROM calls WHERE id = ANY($1) ORDER BY id DESC`, search.ids)
		if err != nil {
			return err
		}
		found.Calls, err = pgx.CollectRows(rows, scan)
		return err
	})
	if postgres.IsStatementTimeout(err) && ctx.Err() == nil {
		err = ErrSearchTooBroad
	}
	if err != nil {
		return Found{}, fmt.Errorf("search calls: %w", err)
	}
	return found, s.name(ctx, found.Calls)
}

// scope limits a filter to what its viewer may see, and reports whether it can select anything.
func (f *Filter) scope() bool {
	if f.Viewer.AgentID != uuid.Nil {
		if f.Agents != nil && !slices.Contains(f.Agents, f.Viewer.AgentID) {
			return false
		}
		f.Agents = []uuid.UUID{f.Viewer.AgentID}
	}
	empty := func(n int, isNil bool) bool { return n == 0 && !isNil }
	return !empty(len(f.Agents), f.Agents == nil) && !empty(len(f.Skills), f.Skills == nil) &&
		!empty(len(f.People), f.People == nil) && !empty(len(f.Statuses), f.Statuses == nil)
}

// scans reports whether calls have to be looked at that are not selected.
func (f *Filter) scans() bool {
	return len(f.Skills) > 0 || f.Tool != "" || len(f.People) > 0 || len(f.Statuses) > 0 ||
		!f.From.IsZero() || !f.To.IsZero() || f.Text != "" || len(f.Agents) > 1
}

// searcher goes through calls from the newest to the oldest, span by span.
type searcher struct {
	tx     pgx.Tx
	filter Filter
	text   *textMatcher // nil: any
	now    func() time.Time

	ids     []uuid.UUID // found
	next    uuid.UUID
	stopped bool
}

func (s *searcher) run(ctx context.Context) error {
	before, lowest := s.filter.bounds()
	if !s.filter.scans() {
		return s.collect(ctx, before, lowest)
	}
	most := int64(MaxSearched)
	if s.text != nil {
		most = MaxTextSearched
	}
	began, looked, bytes := s.now(), int64(0), int64(0)
	for size := int64(firstSpan); ; size = min(2*size, maxSpan) {
		span, err := s.span(ctx, before, lowest, min(size, most-looked))
		if err != nil || span.calls == 0 {
			return err
		}
		if err := s.collect(ctx, before, span.lowest); err != nil || s.next != uuid.Nil {
			return err
		}
		before, looked, bytes = span.lowest, looked+span.calls, bytes+span.bytes
		if looked >= most || bytes >= MaxTextBytes || s.now().Sub(began) >= searchTime {
			s.next, s.stopped = before, true
			return nil
		}
	}
}

// bounds are the ids between which the calls of a filter are: below the first, and not below the second.
// uuid.Nil: there is no such bound.
func (f *Filter) bounds() (before, lowest uuid.UUID) {
	before = f.Before
	if !f.To.IsZero() {
		if latest := firstID(f.To.Add(clockSlack)); before == uuid.Nil || bytes.Compare(latest[:], before[:]) < 0 {
			before = latest
		}
	}
	if !f.From.IsZero() {
		lowest = firstID(f.From.Add(-clockSlack))
	}
	return before, lowest
}

// stretch is a row of calls that are looked through at once.
type stretch struct {
	lowest uuid.UUID // the oldest of them
	calls  int64
	bytes  int64 // of their arguments, where those are read
}

// span measures the next so many calls, or fewer where large arguments have to be read.
func (s *searcher) span(ctx context.Context, before, lowest uuid.UUID, size int64) (stretch, error) {
	q := s.filter.reach(before, lowest)
	length := "0::bigint"
	if s.text != nil {
		length = "octet_length(arguments)::bigint" // which does not fetch them
	}
	var next stretch
	err := s.tx.QueryRow(ctx, `SELECT id, n, bytes FROM (
			SELECT id, row_number() OVER newest AS n, sum(length) OVER newest AS bytes
			FROM (SELECT id, `+length+` AS length FROM calls WHERE `+q.where()+` ORDER BY id DESC LIMIT `+q.arg(size)+`) AS c
			WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
		) AS measured WHERE n = 1 OR bytes <= `+q.arg(int64(spanBytes))+` ORDER BY id LIMIT 1`, q.args...).
		Scan(&next.lowest, &next.calls, &next.bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return stretch{}, nil
	}
	return next, err
}

// collect finds the calls below one id, and not below another.
func (s *searcher) collect(ctx context.Context, before, lowest uuid.UUID) error {
	q := s.filter.reach(before, lowest)
	s.filter.narrow(q)
	columns, limit := `id, arguments, submitted`, ""
	if s.text != nil {
		q.conditions = append(q.conditions, s.text.candidate(q))
	} else {
		columns, limit = `id, NULL::bytea, NULL::bytea`, ` LIMIT `+q.arg(s.filter.Limit+1-len(s.ids))
	}
	rows, err := s.tx.Query(ctx, `SELECT `+columns+` FROM calls WHERE `+q.where()+` ORDER BY id DESC`+limit, q.args...)
	if err != nil {
		return err
	}
	var id uuid.UUID
	var arguments, submitted pgtype.DriverBytes // valid until the next row: not all of them at once
	_, err = pgx.ForEachRow(rows, []any{&id, &arguments, &submitted}, func() error {
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

// reach are the conditions by which calls are found without being looked at.
func (f *Filter) reach(before, lowest uuid.UUID) *statement {
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
	if f.Viewer.AgentID != uuid.Nil { // what belongs to others is not counted either
		q.and("principal_id IS NOT DISTINCT FROM ", postgres.OrNull(f.Viewer.PrincipalID), "::uuid")
	}
	return q
}

// narrow adds the other conditions, but for the text.
func (f *Filter) narrow(q *statement) {
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

// statement is a condition in the making, with its arguments.
type statement struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its name.
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

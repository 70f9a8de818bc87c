package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Order is an order of the queue.
type Order string

// The orders of the queue. A new one needs a place in [Orders] and in [QueueFilter.listTerms].
const (
	ByDeadline Order = "deadline"
	ByRisk     Order = "risk"
	ByUnusual  Order = "unusual" // the most unusual arguments first
)

// Orders returns all orders. The first one is the default.
func Orders() []Order { return []Order{ByDeadline, ByRisk, ByUnusual} }

// QueueFilter selects and orders pending approvals. Zero fields select all, by deadline.
type QueueFilter struct {
	Teams   []string    // the reader's teams; approvals that they are asked about come first
	People  []uuid.UUID // the reader and those whose substitute the reader is; approvals that they are asked about come first
	Team    string      // only approvals that this team is asked about
	AgentID uuid.UUID
	SkillID uuid.UUID
	Tool    string    // a tool of the skill
	HeldBy  uuid.UUID // only approvals that this person claimed or was assigned
	Unvoted uuid.UUID // only approvals that this person has not voted on
	Order   Order     // empty: [ByDeadline]
	ByTool  bool      // the approvals of a tool follow each other
	Kinds   []Kind    // ranks and names for ByRisk and ByTool; see [ListKinds]
	After   Position  // only approvals after this position
	Limit   int
}

// Kind is a tool of pending approvals. Rank and Name order the queue.
type Kind struct {
	SkillID     uuid.UUID
	Tool        string
	Destructive bool // as the tool's server claimed when the calls were made
	Rank        int  // a lower rank comes first in the order [ByRisk]
	Name        string
}

const (
	maxKinds = 1000
	// lastRank is the rank of an approval whose kind is unknown.
	lastRank = 1000
)

// ListKinds returns the kinds of all pending approvals, without ranks and names.
func ListKinds(ctx context.Context, db postgres.Querier) ([]Kind, error) {
	rows, _ := db.Query(ctx, `SELECT skill_id, tool, destructive, 0, '' FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) GROUP BY 1, 2, 3 ORDER BY count(*) DESC, 1, 2, 3 LIMIT $1`, maxKinds)
	kinds, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Kind])
	if err != nil {
		return nil, fmt.Errorf("list tools of approvals: %w", err)
	}
	return kinds, nil
}

// Position is a place in a reader's queue. Positions of different orders, or of readers with different teams, cannot be compared.
type Position struct {
	Others   bool // none of the reader's teams is asked; such approvals come last
	Rank     int  // of the kind in the order [ByRisk], -[Approval.Unusual] in [ByUnusual], otherwise 0
	Deadline time.Time
	CallID   uuid.UUID // uuid.Nil: the beginning
	Name     string    // of the kind; empty if the queue is not grouped
}

// String returns the form that [ParsePosition] reads; "" is the beginning.
func (p Position) String() string {
	if p.CallID == uuid.Nil {
		return ""
	}
	return fmt.Sprintf("%t.%d.%d.%s.%s", p.Others, p.Rank, p.Deadline.UnixMicro(), p.CallID, p.Name)
}

var errPosition = errors.New("position: must be one that a page of the queue returned")

// ParsePosition reads the form of [Position.String].
func ParsePosition(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	parts := strings.SplitN(text, ".", 5)
	if len(parts) != 5 || !utf8.ValidString(parts[4]) || strings.ContainsRune(parts[4], 0) {
		return Position{}, errPosition
	}
	others, err1 := strconv.ParseBool(parts[0])
	rank, err2 := strconv.ParseInt(parts[1], 10, 32)
	micros, err3 := strconv.ParseInt(parts[2], 10, 64)
	id, err4 := uuid.Parse(parts[3])
	if errors.Join(err1, err2, err3, err4) != nil || id == uuid.Nil {
		return Position{}, errPosition
	}
	return Position{Others: others, Rank: int(rank), Deadline: time.UnixMicro(micros), CallID: id, Name: parts[4]}, nil
}

// askedTeamSQL is a condition: one of the teams $1 or of the people $7 is asked about the approval.
const askedTeamSQL = `(team = ANY($1) OR escalated_at IS NOT NULL AND escalate_to = ANY($1) OR asked_teams && $1 OR policy_teams && $1 OR asked_people && $7::uuid[]) IS TRUE`

// queuedSQL is the condition of a [QueueFilter] without its position.
const queuedSQL = `status = 'pending' AND deadline > (SELECT holdpoint_now())
	AND ($2 = '' OR team = $2 OR escalated_at IS NOT NULL AND escalate_to = $2 OR $2 = ANY(asked_teams) OR $2 = ANY(policy_teams))
	AND ($3::uuid IS NULL OR agent_id = $3) AND ($4::uuid IS NULL OR skill_id = $4) AND ($5 = '' OR tool = $5)
	AND ($6::uuid IS NULL OR held_by = $6) AND ($8::uuid IS NULL OR NOT EXISTS (
		SELECT FROM approval_votes AS v WHERE v.call_id = approvals.call_id AND v.person_id = $8 AND v.void_at IS NULL))`

func (f *QueueFilter) queryArgs() []any {
	teams := f.Teams
	if teams == nil {
		teams = []string{}
	}
	people := f.People
	if people == nil {
		people = []uuid.UUID{}
	}
	return []any{
		teams, f.Team, postgres.OrNull(f.AgentID), postgres.OrNull(f.SkillID), f.Tool, postgres.OrNull(f.HeldBy), people, postgres.OrNull(f.Unvoted),
	}
}

// term is an expression that the queue is ordered by, with its value at a position.
type term struct {
	expression string
	kind       string // of the value, in SQL
	at         any
}

// listTerms returns the terms of the filter's order. Without groups, ranks and teams, the order can be read from the index.
func (f *QueueFilter) listTerms() []term {
	var terms []term
	if f.ByTool {
		terms = append(terms, term{`coalesce(kind_name, tool) COLLATE "C"`, "text", f.After.Name})
	}
	if f.hasReader() {
		terms = append(terms, term{`NOT ` + askedTeamSQL, "boolean", f.After.Others})
	}
	switch f.Order {
	case ByRisk:
		terms = append(terms, term{fmt.Sprintf(`coalesce(kind_rank, %d)`, lastRank), "integer", f.After.Rank})
	case ByUnusual:
		terms = append(terms, term{"-unusual", "integer", f.After.Rank})
	case ByDeadline:
	}
	return append(terms, term{"deadline", "timestamptz", f.After.Deadline}, term{"call_id", "uuid", f.After.CallID})
}

// Queue returns pending approvals in the filter's order. Those that the reader's teams are asked about come first, within their
// group if the queue is grouped.
func Queue(ctx context.Context, db postgres.Querier, f QueueFilter) ([]Approval, error) {
	args := f.queryArgs()
	param := func(value any) string {
		args = append(args, value)
		return "$" + strconv.Itoa(len(args))
	}
	var order, after []string
	for _, t := range f.listTerms() {
		order = append(order, t.expression)
		if f.After.CallID != uuid.Nil {
			after = append(after, param(t.at)+"::"+t.kind)
		}
	}
	ordered := strings.Join(order, ", ")
	sql := `SELECT ` + approvalColumns + ` FROM approvals`
	if f.ByTool || f.Order == ByRisk {
		skills, tools, destructive, ranks, names := make([]uuid.UUID, len(f.Kinds)), make([]string, len(f.Kinds)), make([]bool, len(f.Kinds)), make([]int, len(f.Kinds)), make([]string, len(f.Kinds))
		for i, k := range f.Kinds {
			skills[i], tools[i], destructive[i], ranks[i], names[i] = k.SkillID, k.Tool, k.Destructive, k.Rank, k.Name
		}
		sql += fmt.Sprintf(` LEFT JOIN unnest(%s::uuid[], %s::text[], %s::boolean[], %s::integer[], %s::text[])
			AS kind(kind_skill, kind_tool, kind_destructive, kind_rank, kind_name)
			ON kind_skill = skill_id AND kind_tool = tool AND kind_destructive = destructive`,
			param(skills), param(tools), param(destructive), param(ranks), param(names))
	}
	sql += ` WHERE cardinality($1::text[]) >= 0 AND cardinality($7::uuid[]) >= 0 AND ` + queuedSQL
	if len(after) > 0 {
		sql += ` AND (` + ordered + `) > (` + strings.Join(after, ", ") + `)`
	}
	return queryApprovals(ctx, db, sql+` ORDER BY `+ordered+` LIMIT `+param(f.Limit), args...)
}

// PositionOf returns the position of an approval in the queue that the filter orders.
func (f *QueueFilter) PositionOf(a *Approval) Position {
	p := Position{Others: f.hasReader() && !a.Asks(f.Teams, f.People...), Deadline: a.Deadline, CallID: a.CallID}
	at := slices.IndexFunc(f.Kinds, func(k Kind) bool {
		return k.SkillID == a.SkillID && k.Tool == a.Tool && k.Destructive == a.Destructive
	})
	rank, name := lastRank, a.Tool
	if at >= 0 {
		rank, name = f.Kinds[at].Rank, f.Kinds[at].Name
	}
	switch f.Order {
	case ByRisk:
		p.Rank = rank
	case ByUnusual:
		p.Rank = -a.Unusual
	case ByDeadline:
	}
	if f.ByTool {
		p.Name = name
	}
	return p
}

// hasReader reports whether the order depends on the reader.
func (f *QueueFilter) hasReader() bool { return len(f.Teams) > 0 || len(f.People) > 0 }

// ListTeams returns the teams that are asked about the approval. The first one is "" if the call was given to no team.
func (a *Approval) ListTeams() []string {
	teams := append([]string{a.Team}, a.AskedTeams...)
	if a.EscalatedAt != nil && a.EscalateTo != "" {
		teams = append(teams, a.EscalateTo)
	}
	for i := range a.Policies {
		teams = append(teams, a.Policies[i].ListTeams()...)
	}
	return teams
}

// Asks reports whether one of the teams or people is asked about the approval.
func (a *Approval) Asks(teams []string, people ...uuid.UUID) bool {
	asked := a.ListTeams()
	return slices.ContainsFunc(teams, func(team string) bool { return slices.Contains(asked, team) }) ||
		slices.ContainsFunc(people, func(id uuid.UUID) bool { return slices.Contains(a.AskedPeople, id) })
}

// ListWithPolicies returns pending approvals that have policies, by deadline.
func ListWithPolicies(ctx context.Context, db postgres.Querier, limit int) ([]Approval, error) {
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) AND policies IS NOT NULL ORDER BY deadline LIMIT $1`, limit)
}

// AsksPeople reports whether a pending approval asks people, and not only teams.
func AsksPeople(ctx context.Context, db postgres.Querier) (bool, error) {
	found, err := queryRow[struct{ Asks bool }](ctx, db, "find approvals that ask people",
		`SELECT EXISTS (SELECT FROM approvals WHERE status = 'pending' AND cardinality(asked_people) > 0)`)
	return found.Asks, err
}

// Counts are numbers of pending approvals.
type Counts struct {
	All int
	Own int // those that the reader's teams are asked about
}

// Count counts the approvals that a filter selects. It ignores the filter's position.
func Count(ctx context.Context, db postgres.Querier, f QueueFilter) (Counts, error) {
	return queryRow[Counts](ctx, db, "count approvals", `SELECT count(*), count(*) FILTER (WHERE `+askedTeamSQL+`) FROM approvals
		WHERE `+queuedSQL, f.queryArgs()...)
}

// ListSimilar returns at most limit pending approvals of the same agent, principal, skill and tool, a itself included, by
// deadline.
func ListSimilar(ctx context.Context, db postgres.Querier, a *Approval, limit int) ([]Approval, error) {
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals WHERE `+similarSQL+`
		ORDER BY deadline, call_id LIMIT $5`, a.AgentID, postgres.OrNull(a.PrincipalID), a.SkillID, a.Tool, limit)
}

// QueueSimilarCount adds a count of the approvals that [ListSimilar] returns to a batch.
func QueueSimilarCount(batch *pgx.Batch, a *Approval, limit int, into *int) {
	postgres.QueueOne(batch, into, "count similar approvals", pgx.RowTo[int],
		`SELECT count(*) FROM (SELECT FROM approvals WHERE `+similarSQL+` LIMIT $5) AS found`,
		a.AgentID, postgres.OrNull(a.PrincipalID), a.SkillID, a.Tool, limit)
}

// QueuePending adds a read to a batch: whether any approval is pending.
func QueuePending(batch *pgx.Batch, into *bool) {
	postgres.QueueOne(batch, into, "find pending approvals", pgx.RowTo[bool],
		`SELECT EXISTS (SELECT FROM approvals WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()))`)
}

// QueueUnvoted adds a read to a batch: whether an approval is pending that a person has not voted on.
func QueueUnvoted(batch *pgx.Batch, person uuid.UUID, into *bool) {
	f := QueueFilter{Unvoted: person}
	postgres.QueueOne(batch, into, "find pending approvals without a vote", pgx.RowTo[bool],
		`SELECT EXISTS (SELECT FROM approvals WHERE cardinality($1::text[]) >= 0 AND cardinality($7::uuid[]) >= 0 AND `+queuedSQL+`)`, f.queryArgs()...)
}

// similarSQL is a condition: an approval is pending and differs from one only in its arguments.
const similarSQL = `status = 'pending' AND deadline > (SELECT holdpoint_now()) AND agent_id = $1
	AND principal_id IS NOT DISTINCT FROM $2::uuid AND skill_id = $3 AND tool = $4`

// Facet counts the pending approvals of one agent, skill and team.
type Facet struct {
	AgentID uuid.UUID
	SkillID uuid.UUID
	Team    string // empty: none
	Count   int
}

const maxFacets = 200

// Facets returns the values that a reader of the queue can filter by, the most frequent first.
func Facets(ctx context.Context, db postgres.Querier) ([]Facet, error) {
	rows, _ := db.Query(ctx, `SELECT agent_id, skill_id, coalesce(team, ''), count(*) FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT $1`, maxFacets)
	facets, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Facet])
	if err != nil {
		return nil, fmt.Errorf("count approvals: %w", err)
	}
	return facets, nil
}

// Pulse summarizes the queue. Two equal pulses, Now aside, mean that the queue has not changed.
type Pulse struct {
	Pending     int
	Plans       int       `db:"-"` // pending plans; package call adds them
	Newest      time.Time // when the newest pending approval was created
	Oldest      time.Time // when the oldest was created; Now if none is pending
	LastDecided time.Time
	Moved       int64     // changes with deadlines, escalations, proposed edits, claims and comments
	Now         time.Time // by the database's clock
}

// CountUndecided returns how many calls and plans wait for a decision.
func (p Pulse) CountUndecided() int { return p.Pending + p.Plans }

// Waited returns how long the oldest approval has been pending.
func (p Pulse) Waited() time.Duration { return max(0, p.Now.Sub(p.Oldest)) }

// ReadPulse reads the pulse. It is cheap enough to be called several times a second, but not for each call on a screen: it reads all pending
// approvals.
func ReadPulse(ctx context.Context, db postgres.Querier) (Pulse, error) {
	return queryRow[Pulse](ctx, db, "read pulse", `SELECT count(*), coalesce(max(created_at), 'epoch'), coalesce(min(created_at), holdpoint_now()),
		coalesce((SELECT max(decided_at) FROM approvals), 'epoch'),
		coalesce(sum(extended_ms + greatest(CASE WHEN escalated_at IS NULL THEN 0 ELSE 1 END, cardinality(escalated_times)) + coalesce(extract(epoch FROM edited_at) * 1000, 0)
			+ coalesce(extract(epoch FROM held_at) * 1000, 0) + comments), 0)::bigint, holdpoint_now()
		FROM approvals WHERE status = 'pending' AND deadline > (SELECT holdpoint_now())`)
}

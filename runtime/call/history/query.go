package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Query is a [Filter] with names and texts instead of ids and times. Empty fields select all.
type Query struct {
	Agent, Skill, Tool, Person string         // names, or ids
	Statuses, Decisions, Risks []string       // see [AllDecisions] and [AllRisks]
	From, To                   string         // see [query.ParseTime]
	Zone                       *time.Location // of From and To; nil: UTC
	Conversation, Grant        string         // ids
	Text                       string
}

const maxText = 200

// People finds people for a query: by their name, email address or id, and by a part of their name.
type People interface {
	Named(ctx context.Context, name string) ([]uuid.UUID, error)
	NamesContaining(ctx context.Context, text string) ([]uuid.UUID, error)
}

// AllDecisions are the decisions that a query can have.
func AllDecisions() []approval.Status {
	return []approval.Status{approval.Approved, approval.Rejected, approval.Expired}
}

// AllRisks are the risks that a query can have.
func AllRisks() []agent.Risk {
	return []agent.Risk{agent.RiskMarked, agent.RiskDestructive, agent.RiskStandard}
}

// ParseQuery returns the filter of a query. people is nil for agents: the query must not have a person, a text finds no people, errors do
// not name unknown skills, and no standby is read. Errors: *[fault.InvalidError].
func (s *Service) ParseQuery(ctx context.Context, q Query, people People) (Filter, error) {
	r := query.Reader{Zone: q.Zone}
	f := Filter{
		Agents: r.Names(ctx, "agent", q.Agent, s.calls.Agents.AgentsNamed, people != nil),
		Skills: r.Names(ctx, "skill", q.Skill, s.calls.Agents.SkillsNamed, people != nil),
		Tool:   r.Text("tool", q.Tool, call.MaxToolName),
		From:   r.Time("from", q.From, false), To: r.Time("to", q.To, true),
		Conversation: r.ID("conversation", q.Conversation),
		Grant:        r.ID("grant", q.Grant),
		Text:         r.Text("text", q.Text, maxText),
		past:         people != nil,
	}
	switch {
	case people != nil:
		f.People = r.Names(ctx, "person", q.Person, people.Named, true)
	case q.Person != "":
		r.Refuse("person", "must be left out: only reviewers and operators search by person")
	case q.Grant != "":
		r.Refuse("grant", "must be left out: only reviewers and operators search by grant")
	}
	f.Statuses = readWords(&r, "status", q.Statuses, call.AllStatuses())
	f.Decisions = readWords(&r, "decision", q.Decisions, AllDecisions())
	f.Risks = readWords(&r, "risk", q.Risks, AllRisks())
	if err := r.Err(); err != nil || f.Text == "" {
		return f, err
	}
	var err error
	if f.Named, err = s.calls.Agents.NamesContaining(ctx, f.Text); err == nil && people != nil {
		var found []uuid.UUID
		found, err = people.NamesContaining(ctx, f.Text)
		f.Named = append(f.Named, found...)
	}
	return f, err
}

// readWords reads words of a kind. It returns nil for none.
func readWords[T ~string](r *query.Reader, field string, words []string, known []T) []T {
	var read []T
	for _, word := range words {
		if !slices.Contains(known, T(word)) {
			names := make([]string, len(known))
			for i, one := range known {
				names[i] = string(one)
			}
			r.Refuse(field, "must be one of "+strings.Join(names, ", "))
			return nil
		}
		read = append(read, T(word))
	}
	return read
}

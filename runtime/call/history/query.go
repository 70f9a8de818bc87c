package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Query is a [Filter] with names and texts instead of ids and times. Empty fields select all.
type Query struct {
	Agent, Skill, Tool, Person string // names, or ids
	Statuses                   []string
	From, To                   string         // see [query.ParseTime]
	Zone                       *time.Location // of From and To; nil: UTC
	Conversation               string         // an id
	Text                       string
}

const maxText = 200

// ParseQuery returns the filter of a query. people finds people by name; nil: the query must not have a person, and errors do not name
// unknown skills. Errors: *[fault.InvalidError].
func (s *Service) ParseQuery(ctx context.Context, q Query, people query.Finder) (Filter, error) {
	r := query.Reader{Zone: q.Zone}
	f := Filter{
		Agents: r.Names(ctx, "agent", q.Agent, s.calls.Agents.AgentsNamed, people != nil),
		Skills: r.Names(ctx, "skill", q.Skill, s.calls.Agents.SkillsNamed, people != nil),
		Tool:   r.Text("tool", q.Tool, call.MaxToolName),
		From:   r.Time("from", q.From, false), To: r.Time("to", q.To, true),
		Conversation: r.ID("conversation", q.Conversation),
		Text:         r.Text("text", q.Text, maxText),
	}
	switch {
	case people != nil:
		f.People = r.Names(ctx, "person", q.Person, people, true)
	case q.Person != "":
		r.Refuse("person", "expected none: only reviewers and operators search by person")
	}
	known := call.AllStatuses()
	for _, word := range q.Statuses {
		if !slices.Contains(known, call.Status(word)) {
			names := make([]string, len(known))
			for i, status := range known {
				names[i] = string(status)
			}
			r.Refuse("status", "expected one of "+strings.Join(names, ", "))
			f.Statuses = nil
			break
		}
		f.Statuses = append(f.Statuses, call.Status(word))
	}
	return f, r.Err()
}

package call

import (
	"context"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/query"
)

// Query is a search as people write it down: with names, and times as texts. Empty fields select all.
type Query struct {
	Agent, Skill, Tool, Person string // names, or ids
	Statuses                   []string
	From, To                   string // see [query.ParseTime]
	Conversation               string // an id
	Text                       string
}

// MaxToolName bounds the name of a tool in a query, in characters.
const MaxToolName = 256

const maxText = 200

// AllStatuses are the statuses that a call can have, in the order of its life.
func AllStatuses() []Status {
	return []Status{
		NeedsConnection, Parked, Approved, Executing, Succeeded, Failed, Unknown, Rejected, Expired, Cancelled, Denied, Invalid,
	}
}

// Parse reads a query. People says whom a name means; nil: the query may not be about people, and it is not told
// what skills there are. What cannot be read is a *[query.InvalidError].
func (s *Service) Parse(ctx context.Context, q Query, people query.Finder) (Filter, error) {
	var r query.Reader
	f := Filter{
		Agents: r.Names(ctx, "agent", q.Agent, s.Agents.AgentsNamed, people != nil),
		Skills: r.Names(ctx, "skill", q.Skill, s.Agents.SkillsNamed, people != nil),
		Tool:   r.Text("tool", q.Tool, MaxToolName),
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
	f.Statuses = statuses(&r, q.Statuses)
	return f, r.Err()
}

func statuses(r *query.Reader, words []string) []Status {
	var list []Status
	for _, word := range words {
		if !slices.Contains(AllStatuses(), Status(word)) {
			known := make([]string, len(AllStatuses()))
			for i, status := range AllStatuses() {
				known[i] = string(status)
			}
			r.Refuse("status", "expected one of "+strings.Join(known, ", "))
			return nil
		}
		list = append(list, Status(word))
	}
	return list
}

package audit

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/internal/query"
)

// Query is a search as people write it. Empty fields select all.
type Query struct {
	Actor    string         // a name or an id; "system" is Holdpoint itself
	Action   string         // an action, or its noun alone: "call" is every action of calls
	Subject  string         // an id
	From, To string         // see [query.ParseTime]
	Zone     *time.Location // of From and To; nil: UTC
}

const maxAction = 100

// Parse parses a query. actors resolves names. The error for an invalid field is a *[fault.InvalidError].
func (q Query) Parse(ctx context.Context, actors query.Finder) (Filter, error) {
	r := query.Reader{Zone: q.Zone}
	f := Filter{
		Action:  Action(r.Text("action", q.Action, maxAction)),
		Subject: r.ID("subject", q.Subject),
		From:    r.Time("from", q.From, false), To: r.Time("to", q.To, true),
	}
	if q.Actor == KindSystem {
		f.Kind = KindSystem
	} else {
		f.Actors = r.Names(ctx, "actor", q.Actor, actors, true)
	}
	return f, r.Err()
}

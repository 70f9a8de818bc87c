package call

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Export goes through all calls that a filter selects, however many there are, a page at a time.
// It is no snapshot: a call is as it stands when its page is read, and those made after the first page are not in it.
type Export struct {
	service *Service
	filter  Filter
	done    bool
}

const exportPage = 200 // of calls up to 64 KiB of arguments and result each

// Export begins an export, once it is recorded who gets what.
func (s *Service) Export(ctx context.Context, by audit.Actor, f Filter, format string) (*Export, error) {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: "calls.exported", Subject: by.ID,
			Data: map[string]any{"format": format, "filter": f.described()},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("record the export: %w", err)
	}
	f.Limit = exportPage
	return &Export{service: s, filter: f}, nil
}

// Next returns the next calls, which are partial where they are large: see [Service.Whole]. At the end it is io.EOF.
func (e *Export) Next(ctx context.Context) ([]Call, error) {
	for !e.done {
		found, err := e.service.Search(ctx, e.filter)
		if err != nil {
			return nil, err
		}
		e.filter.Before, e.done = found.Next, found.Next == uuid.Nil
		if len(found.Calls) > 0 {
			return found.Calls, nil
		}
	}
	return nil, io.EOF
}

// Whole reads what a list left out of a call.
func (s *Service) Whole(ctx context.Context, c *Call) error {
	if !c.Partial {
		return nil
	}
	whole, err := s.load(ctx, c.ID)
	if err != nil {
		return err
	}
	c.Arguments, c.Submitted, c.Result, c.Partial = whole.Arguments, whole.Submitted, whole.Result, false
	return nil
}

// described is a filter as the audit keeps it.
func (f *Filter) described() map[string]any {
	words := map[string]any{}
	for name, ids := range map[string][]uuid.UUID{"agents": f.Agents, "skills": f.Skills, "people": f.People} {
		if ids != nil {
			words[name] = ids
		}
	}
	for name, t := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !t.IsZero() {
			words[name] = t
		}
	}
	if f.Tool != "" {
		words["tool"] = f.Tool
	}
	if f.Text != "" {
		words["text"] = f.Text
	}
	if f.Statuses != nil {
		words["statuses"] = f.Statuses
	}
	if f.Conversation != uuid.Nil {
		words["conversation"] = f.Conversation
	}
	if f.Before != uuid.Nil {
		words["before"] = f.Before
	}
	return words
}

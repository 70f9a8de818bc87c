package history

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Export reads all calls that a filter selects, page by page. It is not a snapshot: each call is read with its page, and calls made
// after the first page are missing.
type Export struct {
	service *Service
	filter  Filter
	done    bool
}

const exportPage = 200 // calls, with arguments and results up to 64 KiB each

// Export begins an export and writes its audit event.
func (s *Service) Export(ctx context.Context, by audit.Actor, f Filter, format string) (*Export, error) {
	err := postgres.InTx(ctx, s.calls.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.CallsExported, Subject: by.ID,
			Data: map[string]any{"format": format, "filter": f.auditData()},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("record the export: %w", err)
	}
	f.Limit, f.past = exportPage, true
	return &Export{service: s, filter: f}, nil
}

// Next returns the next calls, or io.EOF. Large calls are [call.Call.Partial]; see [Service.ReadWhole].
func (e *Export) Next(ctx context.Context) ([]call.Call, error) {
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

// ReadWhole reads the arguments and results that a list omitted.
func (s *Service) ReadWhole(ctx context.Context, c *call.Call) error {
	if !c.Partial {
		return nil
	}
	read, err := s.calls.ReadCallsFrom(ctx, s.calls.Reader, []uuid.UUID{c.ID})
	if err != nil {
		return err
	}
	whole, ok := read[c.ID]
	if !ok {
		return call.ErrNotFound
	}
	c.Arguments, c.Submitted, c.Result, c.Partial = whole.Arguments, whole.Submitted, whole.Result, false
	return nil
}

// auditData returns a filter as the data of an audit event.
func (f *Filter) auditData() map[string]any {
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
	if f.Decisions != nil {
		words["decisions"] = f.Decisions
	}
	if f.Risks != nil {
		words["risks"] = f.Risks
	}
	if f.Conversation != uuid.Nil {
		words["conversation"] = f.Conversation
	}
	if f.Grant != uuid.Nil {
		words["grant"] = f.Grant
	}
	if f.Before != uuid.Nil {
		words["before"] = f.Before
	}
	return words
}

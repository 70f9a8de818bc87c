package resource

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Channel carries what processes tell each other: which resources changed, and whose subscriptions did.
const Channel = "holdpoint_resources"

// notice is the payload of a notification. It names resources by their hashes, so that it has room.
type notice struct {
	Updated      []updateKey `json:"updated,omitempty"`
	Conversation *uuid.UUID  `json:"conversation,omitempty"` // its subscriptions changed
	Lists        []listKey   `json:"lists,omitempty"`
}

// maxNotice is how many updates one notification tells of, within PostgreSQL's 8,000 bytes.
const maxNotice = 30

// tellChanged tells all processes, this one too, that a session's subscriptions changed.
func tellChanged(ctx context.Context, tx pgx.Tx, conversation uuid.UUID) error {
	payload, err := json.Marshal(notice{Conversation: &conversation})
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, string(payload))
	}
	if err != nil {
		return fmt.Errorf("tell of subscriptions: %w", err)
	}
	return nil
}

// tellUpdated tells all processes, this one too, that resources and lists changed.
func (s *Service) tellUpdated(ctx context.Context, keys []updateKey, lists []listKey) {
	var payloads []string
	for len(keys) > 0 || len(lists) > 0 {
		n, m := min(len(keys), maxNotice), min(len(lists), maxNotice)
		payload, err := json.Marshal(notice{Updated: keys[:n], Lists: lists[:m]})
		if err != nil {
			panic(err) // it always has a form
		}
		payloads, keys, lists = append(payloads, string(payload)), keys[n:], lists[m:]
	}
	_, err := s.Pool.Exec(ctx, `SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`, Channel, payloads)
	if err == nil {
		return
	}
	s.Logger.WarnContext(ctx, "telling other processes of updated resources", "error", err)
	for _, payload := range payloads { // one's own clients at least
		s.HandleNotification(payload)
	}
}

// HandleNotification takes in a notification of [Channel].
func (s *Service) HandleNotification(payload string) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		s.Logger.Warn("notification cannot be read", "channel", Channel, "error", err)
		return
	}
	s.updates.deliver(n.Updated)
	for _, changed := range n.Lists {
		s.Changed(changed.Skill)
	}
	s.updates.relisted(n.Lists)
	if n.Conversation != nil {
		s.updates.reload(func(f *follower) bool { return f.session && f.who.Conversation == *n.Conversation })
	}
}

// CatchUp makes good for notifications that were missed.
func (s *Service) CatchUp() { s.updates.reload(func(*follower) bool { return true }) }

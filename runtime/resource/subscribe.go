package resource

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// MaxSubscriptions bounds the subscriptions of one session, or of one stream of a client without sessions.
const MaxSubscriptions = 100

// ErrTooMany means that there are [MaxSubscriptions] already.
var ErrTooMany = fmt.Errorf("more than %d subscriptions", MaxSubscriptions)

// Subscription is a client's subscription to a resource of a skill.
type Subscription struct {
	URI     string
	SkillID uuid.UUID
}

// Subscribe subscribes a session to a resource. As in [Service.Read] it asks the same servers, and records the requests. Errors:
// [ErrDenied], [ErrTooMany], *[SkillError]; a server without subscriptions is its JSON-RPC error -32601.
func (s *Service) Subscribe(ctx context.Context, who Who, uri string) error {
	mine, err := s.readSubscriptions(ctx, who.Conversation)
	if err != nil {
		return err
	}
	if len(mine) >= MaxSubscriptions && !slices.ContainsFunc(mine, func(one Subscription) bool { return one.URI == uri }) {
		return ErrTooMany
	}
	found, err := s.Subscribable(ctx, who, uri)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(uri))
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		// Subscriptions of a session are serialized, so that their number is right.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('resource_subscriptions ' || $1::text, 0))`, who.Conversation); err != nil {
			return fmt.Errorf("subscribe to a resource: %w", err)
		}
		tag, err := tx.Exec(ctx, `INSERT INTO resource_subscriptions (conversation_id, uri_hash, uri, skill_id)
			SELECT $1, $2, $3, $4 WHERE (SELECT count(*) FROM resource_subscriptions WHERE conversation_id = $1 AND uri_hash <> $2) < $5
			ON CONFLICT (conversation_id, uri_hash) DO UPDATE SET skill_id = excluded.skill_id`,
			who.Conversation, hash[:], uri, found.SkillID, MaxSubscriptions)
		if err != nil {
			return fmt.Errorf("subscribe to a resource: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return ErrTooMany
		}
		return notifySubscriptions(ctx, tx, who.Conversation)
	})
}

// Subscribable subscribes to a resource on its server, and returns its skill. Rules and errors are those of [Service.Subscribe], but
// nothing is stored, and the subscription ends if no client follows it for [Config.Linger].
func (s *Service) Subscribable(ctx context.Context, who Who, uri string) (Subscription, error) {
	found := Subscription{URI: uri}
	_, err := s.askHolders(ctx, who, uri, audit.ResourceSubscribed, func(o *catalog.Offer) (json.RawMessage, error) {
		err := s.subscribeUpstream(ctx, o, uri)
		if err == nil {
			found.SkillID = o.Skill.ID
			s.updates.keepLingering(newUpdateKey(o, uri), o.Server, uri)
		}
		return nil, err
	})
	return found, err
}

// subscribeUpstream subscribes on a skill's server.
func (s *Service) subscribeUpstream(ctx context.Context, o *catalog.Offer, uri string) error {
	if o.Problem != nil {
		return failUnreachable(o)
	}
	return s.asSkillError(ctx, o, s.Upstream.Subscribe(ctx, o.Server, uri))
}

// Unsubscribe ends a session's subscription. It is not an error if there is none.
func (s *Service) Unsubscribe(ctx context.Context, who Who, uri string) error {
	hash := sha256.Sum256([]byte(uri))
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM resource_subscriptions WHERE conversation_id = $1 AND uri_hash = $2`, who.Conversation, hash[:])
		if err != nil {
			return fmt.Errorf("unsubscribe from a resource: %w", err)
		}
		return notifySubscriptions(ctx, tx, who.Conversation)
	})
}

// Ended deletes the subscriptions of a conversation that has ended.
func (s *Service) Ended(ctx context.Context, conversation uuid.UUID) error {
	if _, err := s.Pool.Exec(ctx, `DELETE FROM resource_subscriptions WHERE conversation_id = $1`, conversation); err != nil {
		return fmt.Errorf("delete subscriptions: %w", err)
	}
	return nil
}

// readSubscriptions returns the subscriptions of a session.
func (s *Service) readSubscriptions(ctx context.Context, conversation uuid.UUID) ([]Subscription, error) {
	rows, err := s.Pool.Query(ctx, `SELECT uri, skill_id FROM resource_subscriptions WHERE conversation_id = $1`, conversation)
	if err != nil {
		return nil, fmt.Errorf("find subscriptions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Subscription])
	if err != nil {
		return nil, fmt.Errorf("find subscriptions: %w", err)
	}
	return found, nil
}

// filterAllowed returns the subscriptions that the agent may still have, each with its skill.
func (s *Service) filterAllowed(ctx context.Context, who Who, all []Subscription) (map[Subscription]*catalog.Offer, error) {
	offers, err := s.Catalog.Offers(ctx, who.AgentID, who.Principal)
	if errors.Is(err, agent.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	may := map[Subscription]*catalog.Offer{}
	for _, one := range all {
		for i := range offers {
			o := &offers[i]
			if o.Skill.ID != one.SkillID || o.Problem != nil {
				continue
			}
			open := o.Open
			if !open {
				returned, err := s.Returned(ctx, who, one.URI)
				if err != nil {
					return nil, err
				}
				open = slices.Contains(returned, one.SkillID)
			}
			if open {
				may[one] = o
			}
		}
	}
	return may, nil
}

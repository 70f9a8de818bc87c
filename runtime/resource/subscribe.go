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

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// MaxSubscriptions bounds the resources that one session, or one stream of a client without sessions, is subscribed to.
const MaxSubscriptions = 100

// ErrTooMany means that there are [MaxSubscriptions] already.
var ErrTooMany = fmt.Errorf("more than %d subscriptions", MaxSubscriptions)

// Subscription is a resource that a client wants to hear of, and whose it is.
type Subscription struct {
	URI     string
	SkillID uuid.UUID
}

// Subscribe subscribes a session to a resource, on the same terms as [Service.Read]: it asks the same servers, and records it.
// Errors: [ErrDenied], [ErrTooMany], *[SkillError]; that of a server without subscriptions is its JSON-RPC error -32601.
func (s *Service) Subscribe(ctx context.Context, who Who, uri string) error {
	mine, err := s.subscriptions(ctx, who.Conversation)
	if err != nil {
		return err
	}
	if len(mine) >= MaxSubscriptions && !has(mine, uri) {
		return ErrTooMany
	}
	found, err := s.Subscribable(ctx, who, uri)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(uri))
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		// One after the other, so that they can be counted.
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
		return tellChanged(ctx, tx, who.Conversation)
	})
}

// Subscribable has the server of a resource say when it changes, and returns whose it is. Terms and errors are those of
// [Service.Subscribe]; nothing is stored. What nobody follows for a while ends.
func (s *Service) Subscribable(ctx context.Context, who Who, uri string) (Subscription, error) {
	found := Subscription{URI: uri}
	_, err := s.first(ctx, who, uri, "resource.subscribed", func(o *catalog.Offer) (json.RawMessage, error) {
		err := s.upstream(ctx, o, uri)
		if err == nil {
			found.SkillID = o.Skill.ID
			s.updates.linger(updateKeyOf(o, uri), o.Server, uri)
		}
		return nil, err
	})
	return found, err
}

// upstream has a skill's server say when a resource changes.
func (s *Service) upstream(ctx context.Context, o *catalog.Offer, uri string) error {
	if o.Problem != nil {
		return unreachable(o)
	}
	return s.asSkill(ctx, o, s.Upstream.Subscribe(ctx, o.Server, uri))
}

// Unsubscribe ends a session's subscription. That there is none is no error.
func (s *Service) Unsubscribe(ctx context.Context, who Who, uri string) error {
	hash := sha256.Sum256([]byte(uri))
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM resource_subscriptions WHERE conversation_id = $1 AND uri_hash = $2`, who.Conversation, hash[:])
		if err != nil {
			return fmt.Errorf("unsubscribe from a resource: %w", err)
		}
		return tellChanged(ctx, tx, who.Conversation)
	})
}

// Ended forgets the subscriptions of a conversation that has ended.
func (s *Service) Ended(ctx context.Context, conversation uuid.UUID) error {
	if _, err := s.Pool.Exec(ctx, `DELETE FROM resource_subscriptions WHERE conversation_id = $1`, conversation); err != nil {
		return fmt.Errorf("forget subscriptions: %w", err)
	}
	return nil
}

// subscriptions are a session's.
func (s *Service) subscriptions(ctx context.Context, conversation uuid.UUID) ([]Subscription, error) {
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

func has(all []Subscription, uri string) bool {
	for _, one := range all {
		if one.URI == uri {
			return true
		}
	}
	return false
}

// allowed are those subscriptions that the agent may have by now, each with its skill.
func (s *Service) allowed(ctx context.Context, who Who, all []Subscription) (map[Subscription]*catalog.Offer, error) {
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
